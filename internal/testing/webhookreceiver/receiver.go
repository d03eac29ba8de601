// Package webhookreceiver is a receiver of webhooks for tests and the local run. It verifies signatures, keeps the last
// requests, and fails as the URL of a request says.
package webhookreceiver

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Path is the path of a receiver: POST receives a webhook, GET lists the last ones, and DELETE forgets them.
const Path = "/_webhooks"

const (
	// kept is how many requests a receiver keeps: older ones are forgotten.
	kept = 1000
	// maxBody is the size of the largest accepted body, in bytes.
	maxBody = 64 << 10
	// tolerance is how far the timestamp of a request with an Ed25519 signature may be from now.
	tolerance = 5 * time.Minute
	// keysWithin bounds a look-up of keys, and keysEvery is the least pause between two.
	keysWithin, keysEvery = 10 * time.Second, 5 * time.Second

	secretPrefix, publicPrefix, ed25519Version = "whsec_", "whpk_", "v1a,"
)

// Request is a received request.
type Request struct {
	ReceivedAt time.Time `json:"received_at"`
	// ID is the webhook-id, the same in each attempt.
	ID      string `json:"id"`
	Attempt int64  `json:"attempt"`
	// Type and Sequence are those of the event; empty if the body is no event.
	Type     string `json:"type"`
	Sequence string `json:"sequence"`
	// Verified reports whether a signature verifies; otherwise Problem says why none does.
	Verified bool   `json:"verified"`
	Problem  string `json:"problem,omitempty"`
	// Status is the status of the response, 0 for none. Query is the query of the URL.
	Status int    `json:"status"`
	Query  string `json:"query,omitempty"`
	// Headers are the headers of webhooks, in lower case. Other headers may contain credentials.
	Headers map[string]string `json:"headers"`
	// Body is the body if it is JSON.
	Body json.RawMessage `json:"body"`
}

// Options configure a Receiver.
type Options struct {
	// Keys returns the secrets (whsec_...) and public keys (whpk_...) that verify signatures. It is called again when a
	// request does not verify, because the keys may have been replaced.
	Keys func(context.Context) ([]string, error)
}

// Static returns Options.Keys for keys that do not change.
func Static(keys ...string) func(context.Context) ([]string, error) {
	return func(context.Context) ([]string, error) { return keys, nil }
}

// Receiver is an HTTP handler. It is safe for concurrent use.
type Receiver struct {
	opts Options

	mu       sync.Mutex
	requests []Request
	open     int

	// looking is held while keys are looked up.
	looking sync.Mutex
	keys    []string
	looked  time.Time
}

// New returns a Receiver.
func New(opts Options) *Receiver { return &Receiver{opts: opts} }

// Requests returns the kept requests, oldest first.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Open returns how many webhooks are being answered.
func (r *Receiver) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// ServeHTTP implements http.Handler.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch request.Method {
	case http.MethodPost:
		r.receive(w, request)
	case http.MethodGet:
		r.list(w, request)
	case http.MethodDelete:
		r.mu.Lock()
		r.requests = nil
		r.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "DELETE, GET, POST")
		http.Error(w, "this receiver knows GET, POST and DELETE", http.StatusMethodNotAllowed)
	}
}

func (r *Receiver) count(change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open += change
}

func (r *Receiver) receive(w http.ResponseWriter, request *http.Request) {
	r.count(1)
	defer r.count(-1)
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		http.Error(w, "the body has more than 64 KiB, or is incomplete", http.StatusBadRequest)
		return
	}
	fault, err := faultOf(request.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	one := r.read(request, body)
	if !fault.affects(one.Attempt) {
		fault = injected{}
	}
	switch {
	case fault.kind != "":
		one.Status = fault.status
	case !one.Verified:
		one.Status = http.StatusUnauthorized
	default:
		one.Status = http.StatusNoContent
	}
	r.keep(one)
	if fault.kind != "" {
		fault.respond(w, request)
		return
	}
	if !one.Verified {
		http.Error(w, one.Problem, one.Status)
		return
	}
	w.WriteHeader(one.Status)
}

// read returns the record of a request, without the status of its response.
func (r *Receiver) read(request *http.Request, body []byte) Request {
	one := Request{ReceivedAt: time.Now().UTC(), ID: request.Header.Get("webhook-id"), Query: request.URL.RawQuery, Headers: map[string]string{}, Body: json.RawMessage("null")}
	one.Attempt, _ = strconv.ParseInt(request.Header.Get("Cardea-Attempt"), 10, 64) // 0 without the header
	for name := range request.Header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "webhook-") || strings.HasPrefix(name, "cardea-") || name == "content-type" || name == "user-agent" {
			one.Headers[name] = request.Header.Get(name)
		}
	}
	var event struct{ Type, Sequence string }
	if json.Unmarshal(body, &event) == nil {
		one.Type, one.Sequence, one.Body = event.Type, event.Sequence, body
	}
	if err := r.verify(request.Context(), request.Header, body); err != nil {
		one.Problem = err.Error()
	} else {
		one.Verified = true
	}
	return one
}

func (r *Receiver) keep(one Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) >= kept {
		r.requests = slices.Delete(r.requests, 0, len(r.requests)-kept+1)
	}
	r.requests = append(r.requests, one)
}

// list answers with the kept requests, oldest first, of a type or an id if the query names one.
func (r *Receiver) list(w http.ResponseWriter, request *http.Request) {
	query, listed := request.URL.Query(), []Request{}
	for _, one := range r.Requests() {
		if (query.Get("type") == "" || query.Get("type") == one.Type) && (query.Get("id") == "" || query.Get("id") == one.ID) {
			listed = append(listed, one)
		}
	}
	raw, err := json.MarshalIndent(map[string]any{"requests": listed}, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(raw, '\n'))
}

// verify returns nil if a signature of a request verifies.
func (r *Receiver) verify(ctx context.Context, header http.Header, body []byte) error {
	keys, err := r.look(ctx, false)
	if err == nil && verifies(keys, header, body) == nil {
		return nil
	}
	if keys, err = r.look(ctx, true); err != nil {
		return errors.New("the keys of this receiver are unknown")
	}
	return verifies(keys, header, body)
}

// look returns the keys, as they are now if again says so and the last look was not just before.
func (r *Receiver) look(ctx context.Context, again bool) ([]string, error) {
	r.looking.Lock()
	defer r.looking.Unlock()
	if !r.looked.IsZero() && (!again || time.Since(r.looked) < keysEvery) {
		return r.keys, nil
	}
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	keys, err := r.opts.Keys(ctx)
	if err != nil {
		return nil, err
	}
	r.keys, r.looked = keys, time.Now()
	return keys, nil
}

// verifies returns nil if a request has a signature of one of the keys.
func verifies(keys []string, header http.Header, body []byte) error {
	err := errors.New("this receiver has no key")
	for _, key := range keys {
		if strings.HasPrefix(key, publicPrefix) {
			err = verifyPublic(key, header, body)
		} else {
			err = verifySecret(key, header, body)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

func verifySecret(secret string, header http.Header, body []byte) error {
	library, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return errors.New("this receiver has a secret that is not " + secretPrefix + " and base64")
	}
	return library.Verify(body, header)
}

func verifyPublic(key string, header http.Header, body []byte) error {
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, publicPrefix))
	if err != nil || len(public) != ed25519.PublicKeySize {
		return errors.New("this receiver has a public key that is not " + publicPrefix + " and base64")
	}
	seconds, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > tolerance {
		return errors.New("the timestamp is more than five minutes away")
	}
	signed := slices.Concat([]byte(header.Get("webhook-id")+"."+header.Get("webhook-timestamp")+"."), body)
	for _, one := range strings.Fields(header.Get("webhook-signature")) {
		encoded, found := strings.CutPrefix(one, ed25519Version)
		if signature, err := base64.StdEncoding.DecodeString(encoded); found && err == nil && ed25519.Verify(public, signed, signature) {
			return nil
		}
	}
	return errors.New("no signature verifies")
}
