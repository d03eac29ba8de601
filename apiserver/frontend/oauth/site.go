package oauth

import (
	"context"
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

// app is the OAuth app that a request is for.
type app struct {
	*consent.App
	Deployment *snapshot.Entry
	Snapshot   *snapshot.Snapshot
	// path is the path below the app, such as "/token".
	path string
}

// authorizePath is the path to which clients send browsers, always on the host of the users' sessions.
const authorizePath = "/authorize"

// browsers are the paths that need the browser's session.
var browsers = map[string]bool{authorizePath: true, logoutPath: true}

// wellKnown are the paths of the metadata documents. A request may have them before the issuer's path (RFC 8414 3.1) or
// after it.
var wellKnown = []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}

// find returns the app that a request is for, and false if there is none. The request is under the app's issuer or, for
// the paths of browsers, on the first frontend host of the app's deployment. While a change of the issuer propagates,
// requests are served under the former issuer, even if the app already declares other hosts. An app without signing
// keys is not served.
func (s *Server) find(r *http.Request) (*app, bool) {
	if r.URL.RawPath != "" { // an escaped form of a path: a proxy in front may have routed it as another path
		return nil, false
	}
	current, host, path := s.Snapshots.Current(), site.Host(r), r.URL.Path
	if entry, found := current.AppByHost(host); found {
		a, served := newApp(current, entry, path)
		if browsers[path] { // sessions are on the frontend host
			a.path = ""
		}
		return a, served
	}
	for _, document := range wellKnown {
		if rest, found := strings.CutPrefix(path, document+"/oauth/"); found && !strings.Contains(rest, "/") {
			path = "/oauth/" + rest + document
		}
	}
	rest, found := strings.CutPrefix(path, "/oauth/")
	slug, rest, below := strings.Cut(rest, "/")
	if !found || !below {
		return nil, false
	}
	if rest = "/" + rest; !browsers[rest] {
		entry, found := current.AppByPath(host, "oauth/"+slug)
		if !found {
			return nil, false
		}
		return newApp(current, entry, rest)
	}
	deployment, known := current.ByHost(host)
	if !known {
		return nil, false
	}
	entry, found := current.BySlug(v1alpha1.KindOAuthApp, deployment.Deployment, slug)
	if !found {
		return nil, false
	}
	a, served := newApp(current, entry, rest)
	return a, served && hostOf(a.Content.FrontendURL) == host
}

func newApp(current *snapshot.Snapshot, entry *snapshot.Entry, path string) (*app, bool) {
	deployment, found := current.Deployment(entry.Deployment)
	content := consent.NewApp(current, entry)
	return &app{App: content, Deployment: deployment, Snapshot: current, path: path}, found && content.Content.Issuer != "" && len(content.Content.SigningKeys) > 0
}

// hostOf returns the host of a URL without its port.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "/")
	host, _, _ := strings.Cut(rest, ":")
	return host
}

type appKey struct{}

func withApp(ctx context.Context, a *app) context.Context { return context.WithValue(ctx, appKey{}, a) }

func appOf(ctx context.Context) *app { return ctx.Value(appKey{}).(*app) }
