package site

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
)

// MaxTarget is the maximum length of an address to continue at, in bytes.
const MaxTarget = 2048

// Target returns an address to continue at, and reports whether the browser may be redirected there: it must be a path
// of this host or a page of an origin that the deployment declares.
func Target(d *document.Deployment, asked string) (string, bool) {
	if asked == "" || len(asked) > MaxTarget || strings.ContainsFunc(asked, func(r rune) bool { return r <= ' ' || r == '\\' || r == 0x7f || r > '~' }) {
		return "", false
	}
	u, err := url.Parse(asked)
	if err != nil || u.Opaque != "" || u.User != nil {
		return "", false
	}
	if u.Scheme == "" && u.Host == "" {
		return asked, strings.HasPrefix(asked, "/") && !strings.HasPrefix(asked, "//")
	}
	origin := u.Scheme + "://" + u.Host
	return asked, strings.HasPrefix(asked, origin) && d != nil && slices.Contains(d.AllowedOrigins, origin)
}

// Origin returns the origin of the request's host: https without a port, and http with the request's port for a
// Staging deployment on localhost.
func Origin(d *document.Deployment, r *http.Request) string {
	host := Host(r)
	if !PlainLocalhost(d, r) {
		return "https://" + host
	}
	return "http://" + withPort(host, r)
}

// Origins returns the origins of a deployment's frontend hosts, each as Origin returns that of the request's.
func Origins(d *document.Deployment, r *http.Request) []string {
	origins := make([]string, len(d.FrontendHosts))
	for i, host := range d.FrontendHosts {
		if Staging(d) && localhost(host) && PlainLocalhost(d, r) {
			origins[i] = "http://" + withPort(host, r)
		} else {
			origins[i] = "https://" + host
		}
	}
	return origins
}

// withPort returns a host with the port of a request. The client chooses the port: one that is not a number could lead
// elsewhere, as in localhost:80@evil.example, and is left out.
func withPort(host string, r *http.Request) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return net.JoinHostPort(host, port)
		}
	}
	return host
}
