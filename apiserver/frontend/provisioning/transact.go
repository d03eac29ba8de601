package provisioning

import (
	"crypto/rand"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/provisioning"
	"github.com/cardea-iam/cardea/internal/ids"
)

// request returns the common data of the transactions of a directory. Analytics events do not contain the identity
// provider's own address.
func (c *call) request(d directory) *account.Request {
	address := ""
	if a := c.Proxies.ClientAddress(c.r); a.IsValid() {
		address = a.String()
	}
	return &account.Request{
		Tenant: account.NewTenant(d.snapshot, d.deployment), Store: c.Store, Keyring: c.Keyring, Random: rand.Reader, Now: c.now,
		Actor: d.Actor(), AuditAddress: address, OnEnqueue: c.OnEnqueue,
	}
}

// view reads the rows of the directory, which must be usable.
func (c *call) view(do func(u *account.Unit, d account.Directory) error) error {
	return c.request(c.directory).View(c.r.Context(), func(u *account.Unit) error {
		d, err := account.FindDirectory(u, c.directory.ID)
		if err != nil {
			return err
		}
		return do(u, d)
	})
}

// change runs a change of the directory. It checks the token again when its turn comes: the token may have been revoked
// meanwhile.
func (c *call) change(do func(*provisioning.Change) error) error {
	done, err := c.changing.Take(c.r.Context(), c.directory.key())
	if err != nil {
		return err
	}
	defer done()
	d, err := c.renew(c.r, c.directory)
	if err != nil {
		return err
	}
	c.now = c.Clock().UTC().Truncate(time.Microsecond)
	request := c.request(d)
	err = request.Change(c.r.Context(), func(u *account.Unit) error {
		change, err := provisioning.Begin(u, d.ID)
		if err = account.FirstOf(err, d.require(u)); err != nil {
			return err
		}
		if names := c.r.Header.Get("If-Match"); names != "" {
			change.Matches = func(version int64) bool { return scim.MatchesETag(names, version) }
		}
		err = do(change)
		c.rows = change.Rows
		return err
	})
	var last *provisioning.LastOwnerError
	if !errors.As(err, &last) {
		return err
	}
	mailed := request.Change(c.r.Context(), func(u *account.Unit) error {
		d, err := account.FindDirectory(u, d.ID)
		if err != nil {
			return err
		}
		return account.NotifyLastOwner(u, d, last.User)
	})
	return account.FirstOf(mailed, err)
}

// body reads the body of a request, which counts until done is called.
func (c *call) body() (raw []byte, done func(), err error) {
	if err := requireJSON(c.r); err != nil {
		return nil, nil, err
	}
	done, err = c.bodies.Begin(c.r.Context(), c.asker())
	if err != nil {
		return nil, nil, err
	}
	raw, err = body.Read(c.r, maxBody)
	c.bytes = len(raw)
	if err == nil {
		return raw, done, nil
	}
	done()
	var refused *apierror.Error
	if errors.As(err, &refused) {
		err = &scim.Error{Status: refused.Status, Detail: refused.Error()}
	}
	return nil, nil, err
}

// requireJSON refuses a body that is not declared as JSON. Identity providers send parameters of the media type, which
// are ignored.
func requireJSON(r *http.Request) error {
	sent, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || sent != mediaType && !strings.EqualFold(sent, "application/json") {
		return &scim.Error{Status: http.StatusUnsupportedMediaType, Detail: "the Content-Type is neither " + mediaType + " nor application/json"}
	}
	return nil
}

// id returns the id of a request's path. Another text is the id of nothing.
func (c *call) id() (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, &scim.Error{Status: http.StatusNotFound, Detail: "the directory has no such resource"}
	}
	return id, nil
}

// selection returns which attributes of resources the request asks for.
func (c *call) selection() (scim.Selection, error) {
	query := c.r.URL.Query()
	return scim.ReadSelection(query.Get("attributes"), query.Get("excludedAttributes"))
}

// written is a resource of a response.
type written struct {
	meta scim.Meta
	body []byte
}

// respondWith writes a resource with its version.
func (c *call) respondWith(status int, w written) {
	c.w.Header().Set("ETag", w.meta.ETag())
	if status == http.StatusCreated {
		c.w.Header().Set("Location", w.meta.Location)
	}
	c.respond(status, w.body)
}

// respondRead writes a resource that was read, or 304 if the client has its version.
func (c *call) respondRead(w written) {
	if names := c.r.Header.Get("If-None-Match"); names != "" && scim.MatchesETag(names, w.meta.Version) {
		c.w.Header().Set("ETag", w.meta.ETag())
		c.respond(http.StatusNotModified, nil)
		return
	}
	c.respondWith(http.StatusOK, w)
}
