package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// documentWithin is how long a client's metadata may take to come, and maxDocument how long they may be, in bytes.
	documentWithin, maxDocument = 5 * time.Second, 64 << 10
	// Fetched metadata are good for as long as their headers say, within these bounds.
	minDocumentAge, maxDocumentAge = 5 * time.Minute, 24 * time.Hour
	// failedFor is how long an address that answered no metadata is not asked again.
	failedFor = time.Minute
	// failureBytes is the memory of one failure beside its address, from above.
	failureBytes = 256
)

var (
	// documentFetches bounds the fetches of metadata; they are counted before they begin.
	documentFetches = egress.Bounds{AtOnce: 8, DeploymentAtOnce: 4, NetworkAtOnce: 1, DeploymentPerMinute: 300, NetworkPerMinute: 20}
	// documentFailures bounds the memory of addresses that failed.
	documentFailures = shares.Bounds{Bytes: 1 << 20, DeploymentBytes: 64 << 10}
)

// documents fetches the metadata of clients whose ids are their addresses (OAuth Client ID Metadata Document): one fetch of an address at a
// time, never from inside the network unless allowed, and so many at once and a minute for a deployment and for a network. An address that failed is
// asked again a minute later.
type documents struct {
	client *http.Client
	group  singleflight.Group
	slots  *egress.Slots
	failed *shares.Cache[string, failure]
	clock  func() time.Time
	// refused counts the fetches that were refused before they began.
	refused atomic.Uint64
}

// failure is why an address has no metadata, until a time.
type failure struct {
	err   error
	until time.Time
}

func newDocuments(policy *egress.Policy, clock func() time.Time) *documents {
	return &documents{clock: clock, slots: egress.NewSlots(documentFetches, clock), failed: shares.NewCache[string, failure](documentFailures), client: &http.Client{
		Transport: policy.Transport(documentWithin), Timeout: documentWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// errDocument: what is at an address is no metadata of the client, and stays none until it is changed there.
var errDocument = errors.New("there is no such client metadata")

// fetched is what an address answered.
type fetched struct {
	content *document.OAuthClient
	age     time.Duration
}

// Exhausted returns how many fetches were refused, and how many failures forgotten, because a deployment or a network was at its share.
func (d *documents) Exhausted() uint64 { return d.refused.Load() + d.failed.Evicted() }

// fetch reads what a client says of itself at its address, for an asker. errDocument: that is not it. egress.ErrTooManyFetches: not now.
func (d *documents) fetch(ctx context.Context, of egress.Asker, id string) (fetched, error) {
	if failed, found := d.failed.Get(id, d.clock()); found && d.clock().Before(failed.until) {
		return fetched{}, failed.err
	}
	// The fetch is everybody's who asks for it: one who goes away does not end it.
	result := d.group.DoChan(id, func() (any, error) { return d.begin(context.WithoutCancel(ctx), of, id) })
	select {
	case got := <-result:
		if got.Err != nil {
			return fetched{}, got.Err
		}
		return got.Val.(fetched), nil
	case <-ctx.Done():
		return fetched{}, ctx.Err()
	}
}

// begin reads the metadata at an address once there is a slot, and remembers a failure.
func (d *documents) begin(ctx context.Context, of egress.Asker, id string) (fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, documentWithin)
	defer cancel()
	done, err := d.slots.Begin(ctx, of)
	if err != nil {
		d.refused.Add(1)
		return fetched{}, err
	}
	defer done()
	got, err := d.read(ctx, id)
	if now := d.clock(); err != nil {
		d.failed.DropUnused(now.Add(-failedFor))
		d.failed.Put(of.Deployment, id, failure{err, now.Add(failedFor)}, int64(len(id)+failureBytes), now)
	}
	return got, err
}

func (d *documents) read(ctx context.Context, id string) (fetched, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return fetched{}, errDocument
	}
	r.Header.Set("Accept", "application/json")
	tracing.Outgoing(r)
	answer, err := d.client.Do(r)
	if err != nil {
		return fetched{}, err
	}
	defer answer.Body.Close() //nolint:errcheck // read as far as it is needed
	if answer.StatusCode >= http.StatusInternalServerError {
		return fetched{}, fmt.Errorf("answered %s", answer.Status)
	}
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode != http.StatusOK || err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return fetched{}, errDocument
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err != nil {
		return fetched{}, err
	}
	content, err := readDocument(id, raw)
	return fetched{content, documentAge(answer.Header)}, err
}

// readDocument reads metadata that say the address they are at, and hold no secret: everybody reads them.
func readDocument(id string, raw []byte) (*document.OAuthClient, error) {
	var says struct {
		consent.Metadata
		ClientID string          `json:"client_id"`
		Secret   json.RawMessage `json:"client_secret"`
	}
	if len(raw) > maxDocument || json.Unmarshal(raw, &says) != nil || says.ClientID != id || says.Secret != nil {
		return nil, errDocument
	}
	if says.AuthMethod == "" {
		says.AuthMethod = "none"
	}
	content, err := contentOf(says.Metadata)
	if err != nil || content.Authentication != string(v1alpha1.ClientAuthenticationNone) && content.Authentication != string(v1alpha1.ClientAuthenticationPrivateKeyJWT) {
		return nil, errDocument
	}
	return content, nil
}

// documentAge is for how long metadata are good by their headers.
func documentAge(header http.Header) time.Duration {
	age := minDocumentAge
	for directive := range strings.SplitSeq(header.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		seconds, err := strconv.Atoi(strings.Trim(value, `"`))
		if strings.EqualFold(name, "max-age") && err == nil {
			age = time.Duration(min(max(seconds, 0), int(maxDocumentAge/time.Second))) * time.Second
		}
	}
	return min(max(age, minDocumentAge), maxDocumentAge)
}

// documentClient finds a client by the address of its metadata, which are fetched where they are new or no longer good. What was fetched before
// is kept for a day where the address does not answer.
func (c *call) documentClient(id string) (*consent.Client, bool, error) {
	known, inUse, err := c.findClient(id)
	if err != nil || inUse && c.now.Before(known.Registered.FreshUntil) {
		return known, inUse, err
	}
	if known != nil && !known.Active { // a backend put it out of use, whatever its address says
		return nil, false, nil
	}
	asker := egress.Asker{Deployment: c.Deployment.Deployment, Network: account.NewClient(c.address(), "").WideNetwork}
	got, err := c.documents.fetch(c.r.Context(), asker, id)
	switch {
	case errors.Is(err, egress.ErrTooManyFetches):
		return nil, false, &Error{Status: http.StatusTooManyRequests, Code: "slow_down", Description: "too many metadata were asked for from this network: try again in a minute", RetryAfter: time.Minute}
	case errors.Is(err, errDocument):
		return nil, false, nil
	case err != nil && inUse && c.now.Before(known.Registered.FreshUntil.Add(maxDocumentAge)):
		return known, true, nil
	case err != nil:
		tracing.Logger(c.r.Context(), c.Log).Info("The metadata of a client cannot be had", "client", id, "error", err.Error())
		return nil, false, nil
	}
	err = c.change(func(u *account.Unit) (err error) {
		known, err = consent.PutDocument(u, c.App, id, *got.content, c.now.Add(got.age))
		return err
	})
	return known, err == nil && known.Active, noRoom(err)
}
