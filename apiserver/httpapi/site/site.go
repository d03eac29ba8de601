// Package site derives facts for browsers from the host of a request: its deployment, the deployment's origins, and
// whether cookies can be Secure. The end-user API and the pages share it.
package site

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// SessionCookie is the name of the cookie with the session's token. The contract fixes it. The __Host- prefix, which
// would exclude cookies of sibling hosts, is not possible, so two cookies of this name are refused instead.
const SessionCookie = "__session"

// ActiveUserHeader states which account a request to the end-user API is meant for. If another tab has switched to a
// different account since, the request is refused, so a form never changes the wrong account.
const ActiveUserHeader = "X-Active-User"

// Host returns the host of a request in lower case, without port and trailing dot.
func Host(r *http.Request) string {
	host := r.Host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// PlainLocalhost reports whether a Staging deployment is served on localhost without TLS, where browsers drop Secure
// cookies.
func PlainLocalhost(d *document.Deployment, r *http.Request) bool {
	return Staging(d) && localhost(Host(r)) && r.TLS == nil
}

// Base returns the base address of links in messages, without a trailing slash: the tenant's own pages if declared,
// else the deployment's first host if Cardea serves pages there, else "". For a Staging deployment on localhost it has
// the port of the request.
func Base(d *document.Deployment, r *http.Request) string {
	pages := d.EffectivePages()
	switch {
	case pages.URL != "":
		return pages.URL
	case pages.Disabled || len(d.FrontendHosts) == 0:
		return ""
	}
	first := d.FrontendHosts[0]
	if !Staging(d) || !localhost(first) || r.TLS != nil {
		return "https://" + first
	}
	return "http://" + withPort(first, r)
}

// OwnOrigin reports whether an origin is one of the deployment's hosts, on the port of the request or the default port
// of the scheme.
func OwnOrigin(d *document.Deployment, r *http.Request, origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Path != "" || u.RawQuery != "" || u.User != nil || !slices.Contains(d.FrontendHosts, u.Hostname()) {
		return false
	}
	if u.Scheme != "https" && !(u.Scheme == "http" && Staging(d) && localhost(u.Hostname())) {
		return false
	}
	_, port, err := net.SplitHostPort(r.Host)
	return u.Port() == "" || err == nil && u.Port() == port
}

// Staging reports whether the deployment is for tests.
func Staging(d *document.Deployment) bool { return d.Mode == string(v1alpha1.DeploymentModeStaging) }

func localhost(host string) bool { return host == "localhost" || strings.HasSuffix(host, ".localhost") }

// maxPlantedPath is the longest path, in bytes, for which planted cookies are deleted.
const maxPlantedPath = 128

// ClearPlanted deletes the session cookies that a browser may have sent: the host's own, and those that a page of a
// sibling host planted for a parent domain or a path above the request's. A browser deletes a cookie only by its exact
// domain and path, which requests do not contain, so ClearPlanted tries the candidates: at most 4 domains and 8 paths.
func ClearPlanted(header http.Header, d *document.Deployment, r *http.Request) {
	host := Host(r)
	domains := []string{""}
	for parent := host; ; {
		_, rest, found := strings.Cut(parent, ".")
		if !found || !strings.Contains(rest, ".") {
			break
		}
		domains = append(domains, rest)
		parent = rest
	}
	if strings.Contains(host, ".") {
		domains = append(domains, host)
	}
	paths, asked := []string{"/"}, r.URL.Path
	if len(asked) > maxPlantedPath {
		asked = "/" // a cookie for a path without an operation is harmless, and the response stays short
	}
	for at, letter := range asked {
		if letter == '/' && at > 0 {
			paths = append(paths, asked[:at], asked[:at+1])
		}
	}
	paths = append(paths, asked)
	for _, domain := range domains[:min(len(domains), 4)] {
		for _, path := range paths[:min(len(paths), 8)] {
			cookie := http.Cookie{Name: SessionCookie, Path: path, Domain: domain, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: !PlainLocalhost(d, r), MaxAge: -1}
			header.Add("Set-Cookie", cookie.String())
		}
	}
}
