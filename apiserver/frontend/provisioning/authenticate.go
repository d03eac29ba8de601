package provisioning

import (
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// directory is an authenticated directory.
type directory struct {
	entry      *snapshot.Entry
	deployment *snapshot.Entry
	snapshot   *snapshot.Snapshot
	// base is the URL of the directory.
	base string
}

// key names the directory within the install.
func (d directory) key() string {
	if d.entry == nil {
		return ""
	}
	return d.entry.Deployment + "/" + ids.Format(d.entry.ID)
}

// authenticate returns the directory that a request is for, and reports whether the request has one of its tokens. It
// reads the configuration in memory alone.
func (s *Server) authenticate(r *http.Request) (directory, bool) {
	d, found := s.find(r)
	if !found {
		return directory{}, false
	}
	token, found := bearer.FromHeader(r)
	if !found || !bearer.OfDirectory(snapshot.ContentOf[document.Directory](d.entry), token, s.Clock()) {
		return directory{}, false
	}
	return d, true
}

// find returns the directory of a request's host and path.
func (s *Server) find(r *http.Request) (d directory, found bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, prefix), "/")
	id, err := ids.Parse(name)
	if err != nil || r.URL.RawPath != "" { // an escaped form of a path: a proxy in front may have routed it as another path
		return d, false
	}
	d.snapshot = s.Snapshots.Current()
	if d.deployment, found = d.snapshot.ByHost(site.Host(r)); !found {
		return d, false
	}
	if d.entry, found = d.snapshot.ByID(v1alpha1.KindDirectory, d.deployment.Deployment, id); !found {
		return d, false
	}
	scheme := "https://"
	if site.PlainLocalhost(snapshot.ContentOf[document.Deployment](d.deployment), r) {
		scheme = "http://"
	}
	d.base = scheme + r.Host + prefix + name
	return d, true
}
