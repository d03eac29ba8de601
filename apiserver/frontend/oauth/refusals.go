package oauth

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// actionRefused begins what auditors are told of a refusal: the standard's error code and the reason follow.
	actionRefused = "oauth.refused"
	// leftOut is what they are told once of those beyond the bounds.
	leftOut = actionRefused + ": more were left out, for up to a minute, or for the day"
	// Of one client and network, of one client, and of one app so many refusals a minute are told to auditors, and of an app so many a day: whoever
	// knows a client's id, which is no secret, can have requests refused in its name, and what is told is kept for a year and more.
	refusalsOfNetwork, refusalsOfClient, refusalsOfApp, refusalsOfDay = 10, 60, 300, 2000
	// maxRefusalWindows is how many of those of networks and clients are remembered, and as many of those of apps; each takes some hundred bytes.
	maxRefusalWindows = 10_000
	// refusalWithin is how long a row may take: the answer waits for it.
	refusalWithin = 2 * time.Second
)

// refusals bounds what auditors are told.
type refusals struct {
	mu      sync.Mutex
	windows *lru.Cache[string, refusalWindow]
	// apps are the windows of whole apps, apart: no number of networks and clients, which anybody can be, evicts them.
	apps *lru.Cache[string, refusalWindow]
}

type refusalWindow struct {
	until time.Time
	count int
}

func newRefusals() *refusals {
	windows, err := lru.New[string, refusalWindow](maxRefusalWindows)
	apps, errApps := lru.New[string, refusalWindow](maxRefusalWindows)
	if err := errors.Join(err, errApps); err != nil {
		panic(err) // the size is a constant above 0
	}
	return &refusals{windows: windows, apps: apps}
}

// bound is how many of a name are told within a time.
type bound struct {
	name   string
	most   int
	within time.Duration
	// ofApp reports that it is a whole app's.
	ofApp bool
}

// tell reports whether a refusal is told, or in its place once that more are left out. Bounds are asked from the narrowest to the widest: what one
// leaves out counts for none after it, so that who floods from one network hides nothing of what others do; and the row that says so counts as any other.
func (r *refusals) tell(now time.Time, bounds ...bound) (told, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range bounds {
		windows := r.windows
		if b.ofApp {
			windows = r.apps
		}
		w, known := windows.Get(b.name)
		if !known || !now.Before(w.until) {
			w = refusalWindow{until: now.Add(b.within)}
		}
		w.count++
		windows.Add(b.name, w)
		if w.count > b.most+1 {
			return false, false
		}
		first = first || w.count == b.most+1
	}
	return !first, first
}

// audit tells auditors that a client, or a registration, was refused. The reason says no secret, and nothing that a stranger chose.
func audit(c *call, code, reason string) {
	object := ""
	switch {
	case c.client != nil:
		object = "oauth_client:" + c.client.ID
	case c.named != "":
		object = "oauth_client:" + c.named
	case c.registers:
		object = "oauth_app:" + strconv.FormatInt(c.Entry.ID, 10)
	}
	if object == "" || c.audited { // whom nobody knows fills no store
		return
	}
	c.audited = true
	request := c.request()
	app := strconv.FormatInt(c.Entry.ID, 10)
	told, first := c.refusals.tell(c.now, bound{name: app + " " + object + " " + request.Client.Network, most: refusalsOfNetwork, within: time.Minute},
		bound{name: app + " " + object, most: refusalsOfClient, within: time.Minute}, bound{name: app, most: refusalsOfApp, within: time.Minute, ofApp: true},
		bound{name: app + " day", most: refusalsOfDay, within: 24 * time.Hour, ofApp: true})
	if !told && !first {
		return
	}
	action := actionRefused + "." + code + ": " + reason
	if first {
		action = leftOut
	}
	// Who goes away does not keep it from the auditors.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), refusalWithin)
	defer cancel()
	if err := request.Change(ctx, func(u *account.Unit) error { return u.Audit(action, object) }); err != nil {
		tracing.Logger(ctx, c.Log).Info("A refusal is not in the audit", "action", action, "object", object, "error", err.Error())
	}
}

// auditError is audit of what is answered. What is no fault of the request, and what a device is told that only waits, is none.
func auditError(c *call, e *Error) {
	if e.Status >= http.StatusInternalServerError || e.Code == codePending || e.Audited {
		return
	}
	reason := e.Reason
	if reason == "" {
		reason = e.Description
	}
	audit(c, e.Code, reason)
}
