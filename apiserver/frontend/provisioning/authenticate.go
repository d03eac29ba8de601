package provisioning

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// tokenUsedEvery is how often the use of a token is written, at most.
const tokenUsedEvery = time.Minute

// directory is an authenticated directory.
type directory struct {
	account.Directory
	deployment *snapshot.Entry
	snapshot   *snapshot.Snapshot
	// base is the URL of the directory.
	base string
	// presented is the token of a request to a directory that no resource declares, nil for one to another.
	presented *apikey.Key
}

// key names the directory within the install, "" before it is authenticated.
func (d directory) key() string {
	if d.Directory.Directory == nil {
		return ""
	}
	return d.deployment.Deployment + "/" + ids.Format(d.ID)
}

// authenticate returns the directory that a request is for, if the request has one of its tokens. For a declared
// directory, it reads the configuration in memory alone. Everything that is wrong gets the same error.
func (s *Server) authenticate(r *http.Request) (directory, error) {
	d, id, found := s.find(r)
	token, sent := bearer.FromHeader(r)
	if !found || !sent {
		return directory{}, unauthorized()
	}
	if e, declared := d.snapshot.ByID(v1alpha1.KindDirectory, d.deployment.Deployment, id); declared {
		d.Directory = account.Directory{ID: id, Directory: snapshot.ContentOf[document.Directory](e)}
		if !bearer.OfDirectory(d.Directory.Directory, token, s.Clock()) {
			return directory{}, unauthorized()
		}
		return d, nil
	}
	key, err := apikey.Parse(token)
	if err != nil || key.Prefix() != document.DirectoryTokenPrefix {
		return directory{}, unauthorized()
	}
	return s.findRuntime(r, d, id, key)
}

// renew returns an authenticated directory with the present configuration, for a change whose turn has come. It
// authenticates a declared directory again. For another one, require does so within the change.
func (s *Server) renew(r *http.Request, before directory) (directory, error) {
	if before.presented == nil {
		return s.authenticate(r)
	}
	d, _, found := s.find(r)
	if !found {
		return directory{}, unauthorized()
	}
	d.Directory, d.presented = before.Directory, before.presented
	return d, nil
}

// require returns the error of a request whose token was revoked, or has expired, since it was authenticated.
func (d directory) require(u *account.Unit) error {
	if d.presented == nil {
		return nil
	}
	_, err := findToken(u, d.ID, *d.presented)
	return err
}

// find returns the deployment of a request's host, and the id of the directory in its path.
func (s *Server) find(r *http.Request) (d directory, id int64, found bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, prefix), "/")
	id, err := ids.Parse(name)
	if err != nil || r.URL.RawPath != "" { // an escaped form of a path: a proxy in front may have routed it as another path
		return d, 0, false
	}
	d.snapshot = s.Snapshots.Current()
	if d.deployment, found = d.snapshot.ByHost(site.Host(r)); !found {
		return d, 0, false
	}
	scheme := "https://"
	if site.PlainLocalhost(snapshot.ContentOf[document.Deployment](d.deployment), r) {
		scheme = "http://"
	}
	d.base = scheme + r.Host + prefix + name
	return d, id, true
}

// findRuntime returns the directory of an organization that has a token. A wrong token costs the read of one row.
// lookupBounds limits concurrent lookups of a network and of a deployment.
func (s *Server) findRuntime(r *http.Request, d directory, id int64, key apikey.Key) (directory, error) {
	request := &account.Request{Tenant: account.NewTenant(d.snapshot, d.deployment), Store: s.Store, Now: s.Clock().UTC().Truncate(time.Microsecond)}
	if !request.ManagesConnections() {
		return d, unauthorized()
	}
	done, err := s.lookups.Begin(r.Context(), egress.Asker{Deployment: request.Key(), Source: account.NewClient(s.Proxies.ClientAddress(r), "").WideNetwork})
	if err != nil {
		return d, err
	}
	defer done()
	var token people.DirectoryToken
	err = request.View(r.Context(), func(u *account.Unit) (err error) {
		if token, err = findToken(u, id, key); err != nil {
			return err
		}
		d.Directory, err = account.NamedDirectory(u, id)
		return err
	})
	if err != nil {
		return directory{}, err
	}
	d.presented = &key
	return d, s.recordUse(r.Context(), request, token)
}

// findToken returns a live token of a directory that organizations and backends set up.
func findToken(u *account.Unit, id int64, key apikey.Key) (people.DirectoryToken, error) {
	token, known, err := u.Directories().DirectoryToken(id, key.ID())
	if err != nil || !known || !token.Digest.Equal(key.Digest()) || !token.Live(u.Now) {
		return token, account.FirstOf(err, unauthorized())
	}
	return token, nil
}

// recordUse writes that a token was used, unless that was written less than tokenUsedEvery ago.
func (s *Server) recordUse(ctx context.Context, request *account.Request, token people.DirectoryToken) error {
	since := request.Now.Add(-tokenUsedEvery)
	if token.UsedAt.After(since) {
		return nil
	}
	return request.Change(ctx, func(u *account.Unit) error {
		_, err := u.Directories().UseDirectoryToken(token.Directory, token.ID, request.Now, since)
		return err
	})
}
