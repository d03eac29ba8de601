package pages

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
)

const (
	// stateCookie is the name of the pages' cookie. Over TLS it has the prefix hostPrefix, so that sibling hosts cannot
	// set the cookie.
	stateCookie = "cardea_pages"
	hostPrefix  = "__Host-"
	// maxState is the maximum length of the cookie's value, in bytes. Browsers accept 4096 bytes with name and
	// attributes.
	maxState = 3 << 10
	// flowLifetime is the lifetime of a flow, the same as that of an attempt's anonymous session.
	flowLifetime = 10 * time.Minute
	// draftLifetime is how long entered data waits for a sign-in.
	draftLifetime = 10 * time.Minute
	// noticeLifetime is how long a notice waits for the page that shows it.
	noticeLifetime = time.Minute
)

// state is the data that the pages keep in an encrypted cookie. Except for the nonce, it has only data that the API
// knows or that the user entered.
type state struct {
	// Nonce binds the tokens of forms to this browser.
	Nonce string `json:"n"`
	// Flow is the sign-in, sign-up or verification in progress.
	Flow *flow `json:"f,omitempty"`
	// Notice is shown on the next page.
	Notice *notice `json:"m,omitempty"`
	// Draft is the entered data of a form that could not be processed, for example because the session had ended.
	Draft *draft `json:"d,omitempty"`
	// Offer makes the account page offer a passkey.
	Offer bool `json:"o,omitempty"`
	// Removed is the id of the passkey that was removed last, until a page has reported it to the browser.
	Removed string `json:"r,omitempty"`
	// Readdressed makes the page of addresses report the new primary address to the browser's passkeys, which show it.
	Readdressed bool `json:"a,omitempty"`

	// was is the value of the cookie in the request.
	was     string
	changed bool
}

// flow is a sign-in, sign-up or verification in progress.
type flow struct {
	Email string `json:"e"`
	// Attempt is the id of the attempt that waits for a code, "" before there is one. For the verification of a
	// contact, it is the contact's id with the prefix contact.flow.
	Attempt string `json:"a,omitempty"`
	// Sends is the number of codes that were sent, and SentAt the time of the last send in Unix seconds.
	Sends  int   `json:"s,omitempty"`
	SentAt int64 `json:"t,omitempty"`
	Ends   int64 `json:"x"`
}

type notice struct {
	Key  string `json:"k"`
	Ends int64  `json:"x"`
}

// draft is the entered data of a form, without passwords, codes and ids.
type draft struct {
	User   string            `json:"u"`
	Path   string            `json:"p"`
	Action string            `json:"a,omitempty"`
	Values map[string]string `json:"v"`
	Ends   int64             `json:"x"`
}

// loadState reads the cookie. It ignores a cookie that was not made for this deployment, and expired parts of the
// state.
func (v *visit) loadState() state {
	s := state{}
	if v.tenant == nil {
		return s
	}
	if cookie, err := v.r.Cookie(v.stateName()); err == nil {
		s.was = cookie.Value
		if raw, err := v.keys.open(v.tenant.Key(), cookie.Value); err != nil || json.Unmarshal(raw, &s) != nil {
			s = state{was: cookie.Value}
		}
	}
	now := v.now.Unix()
	if s.Flow != nil && now >= s.Flow.Ends {
		s.Flow, s.changed = nil, true
	}
	if s.Notice != nil && now >= s.Notice.Ends {
		s.Notice, s.changed = nil, true
	}
	if s.Draft != nil && now >= s.Draft.Ends {
		s.Draft, s.changed = nil, true
	}
	return s
}

func (v *visit) secure() bool { return !site.PlainLocalhost(v.tenant.Settings, v.r) }

func (v *visit) stateName() string {
	if v.secure() {
		return hostPrefix + stateCookie
	}
	return stateCookie
}

// saveState sets the cookie if the state changed. If the state is too long, the draft is dropped first, then everything
// except the nonce.
func (v *visit) saveState(header http.Header) {
	if v.tenant == nil || !v.state.changed {
		return
	}
	value := v.sealed()
	if len(value) > maxState {
		v.state.Draft = nil
		value = v.sealed()
	}
	if len(value) > maxState {
		v.state.Flow, v.state.Notice = nil, nil
		value = v.sealed()
	}
	cookie := http.Cookie{Name: v.stateName(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: v.secure()}
	header.Add("Set-Cookie", cookie.String())
}

func (v *visit) sealed() string {
	raw, err := json.Marshal(v.state)
	if err != nil {
		panic(err) // the state has only strings and numbers
	}
	return v.keys.seal(v.tenant.Key(), raw)
}

// nonce returns the browser's nonce. If there is none, it creates one.
func (v *visit) nonce() string {
	if v.state.Nonce == "" {
		var raw [16]byte
		if _, err := io.ReadFull(v.Random, raw[:]); err != nil {
			panic(err) // crypto/rand never fails
		}
		v.state.Nonce, v.state.changed = base64.RawURLEncoding.EncodeToString(raw[:]), true
	}
	return v.state.Nonce
}

func (s *state) notify(key string, now time.Time) {
	s.Notice, s.changed = &notice{Key: key, Ends: now.Add(noticeLifetime).Unix()}, true
}

func (s *state) begin(f flow, now time.Time) {
	f.Ends = now.Add(flowLifetime).Unix()
	s.Flow, s.changed = &f, true
}

// takeNotice returns the key of the waiting notice, "" for none, and removes the notice from the state.
func (s *state) takeNotice() string {
	if s.Notice == nil {
		return ""
	}
	key := s.Notice.Key
	s.Notice, s.changed = nil, true
	return key
}

// keepDraft keeps the entered data until the same user signs in again. Nothing is kept without a signed-in user.
func (v *visit) keepDraft(sent *form, user string) {
	if sent == nil || user == "" {
		return
	}
	typed := maps.Clone(sent.values)
	maps.DeleteFunc(typed, func(name, value string) bool { return secret(name) || chosen(name) || value == "" })
	if len(typed) == 0 {
		return
	}
	d := &draft{User: user, Path: v.r.URL.Path, Action: sent.Action, Values: typed, Ends: v.now.Add(draftLifetime).Unix()}
	v.state.Draft, v.state.changed = d, true
}

// restoreDraft restores the draft if this is its page and the signed-in user entered it.
func (v *visit) restoreDraft() {
	d := v.state.Draft
	if d == nil || v.page.post == nil || d.Path != v.r.URL.Path || d.User != v.user() {
		return
	}
	v.form = &form{Action: d.Action, values: d.Values, Restored: true}
	v.state.Draft, v.state.changed = nil, true
}
