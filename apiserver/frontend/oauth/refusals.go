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
	// actionRefused is the prefix of the audit action of a refusal. The standard's error code and the reason follow.
	actionRefused = "oauth.refused"
	// leftOut is the audit action that is recorded once for the refusals above a bound.
	leftOut = actionRefused + ": more were left out, for up to a minute, or for the day"
	// The bounds of audited refusals: per minute of one client from one network, of one client, and of one app; and per
	// day of one app. A client's id is not secret, so any caller can have requests refused in its name, and audit records
	// are kept for a year or more.
	refusalsOfNetwork, refusalsOfClient, refusalsOfApp, refusalsOfDay = 10, 60, 300, 2000
	// maxRefusalWindows bounds the cached windows of networks and clients, and separately those of apps. Each takes
	// some hundred bytes.
	maxRefusalWindows = 10_000
	// refusalWithin bounds the time to write an audit record, because the response waits for it.
	refusalWithin = 2 * time.Second
)

// refusals bounds the audited refusals.
type refusals struct {
	mu      sync.Mutex
	windows *lru.Cache[string, refusalWindow]
	// apps are the windows of whole apps. They are separate, so that windows of networks and clients, of which there can
	// be any number, do not evict them.
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

// bound is the highest number of audited refusals of a name within a time.
type bound struct {
	name   string
	most   int
	within time.Duration
	// ofApp reports that the bound is that of a whole app.
	ofApp bool
}

// admit reports whether a refusal is audited, or whether it is the first above a bound, so that a record of the
// omission is audited in its place. It checks the bounds from the narrowest to the widest. A refusal above a narrow
// bound does not count toward wider ones, so one flooding network cannot hide the others. The record of the omission
// counts like any other.
func (r *refusals) admit(now time.Time, bounds ...bound) (audited, first bool) {
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

// audit records that a client or a registration was refused. The reason contains no secret, and no text that the caller
// chose.
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
	if object == "" || c.audited { // refusals without a known client must not fill the store
		return
	}
	c.audited = true
	request := c.request()
	app := strconv.FormatInt(c.Entry.ID, 10)
	audited, first := c.refusals.admit(c.now, bound{name: app + " " + object + " " + request.Client.Network, most: refusalsOfNetwork, within: time.Minute},
		bound{name: app + " " + object, most: refusalsOfClient, within: time.Minute}, bound{name: app, most: refusalsOfApp, within: time.Minute, ofApp: true},
		bound{name: app + " day", most: refusalsOfDay, within: 24 * time.Hour, ofApp: true})
	if !audited && !first {
		return
	}
	action := actionRefused + "." + code + ": " + reason
	if first {
		action = leftOut
	}
	// The refusal is audited even if the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), refusalWithin)
	defer cancel()
	if err := request.Change(ctx, func(u *account.Unit) error { return u.Audit(action, object) }); err != nil {
		tracing.Logger(ctx, c.Log).Info("Auditing a refusal failed", "action", action, "object", object, "error", err.Error())
	}
}

// auditError audits an error response, except errors of the server and the waiting of a device.
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
