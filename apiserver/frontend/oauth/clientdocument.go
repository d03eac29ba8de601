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
	// documentWithin bounds the time of a fetch of client metadata, and maxDocument their length in bytes.
	documentWithin, maxDocument = 5 * time.Second, 64 << 10
	// Fetched metadata are fresh for the time in their headers, within these bounds.
	minDocumentAge, maxDocumentAge = 5 * time.Minute, 24 * time.Hour
	// failedFor is how long an address is not fetched again after a failure.
	failedFor = time.Minute
	// failureBytes is an upper bound of the memory of one failure besides its address.
	failureBytes = 256
)

var (
	// documentFetches bounds the fetches of metadata. Fetches are counted before they begin.
	documentFetches = egress.Bounds{AtOnce: 8, DeploymentAtOnce: 4, SourceAtOnce: 1, DeploymentPerMinute: 300, SourcePerMinute: 20}
	// documentFailures bounds the memory of addresses that failed.
	documentFailures = shares.Bounds{Bytes: 1 << 20, DeploymentBytes: 64 << 10}
)

// documents fetches the metadata of clients whose ids are addresses (OAuth Client ID Metadata Document). Only one fetch
// per address runs at a time, never to an internal address unless allowed, and within the bounds per deployment and
// network. After a failure, an address is not fetched for a minute.
type documents struct {
	client *http.Client
	group  singleflight.Group
	slots  *egress.Slots
	failed *shares.Cache[string, failure]
	clock  func() time.Time
	// refused counts the fetches that were refused before they began.
	refused atomic.Uint64
}

// failure is a remembered failure of an address, until a time.
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

// errDocument means that the address does not serve valid metadata of the client. Trying again does not help until the
// metadata change.
var errDocument = errors.New("there is no such client metadata")

// fetched is the result of a fetch.
type fetched struct {
	content *document.OAuthClient
	age     time.Duration
}

// Exhausted returns the number of refused fetches and evicted failures, because a deployment or a network used up its
// share.
func (d *documents) Exhausted() uint64 { return d.refused.Load() + d.failed.Evicted() }

// fetch fetches a client's metadata for an asker. It returns errDocument for invalid metadata, and
// egress.ErrTooManyFetches above the bounds.
func (d *documents) fetch(ctx context.Context, of egress.Asker, id string) (fetched, error) {
	if failed, found := d.failed.Get(id, d.clock()); found && d.clock().Before(failed.until) {
		return fetched{}, failed.err
	}
	// All waiting requests share the fetch, so it continues when one of them is canceled.
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

// begin fetches the metadata at an address once there is a slot, and remembers a failure.
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
	defer answer.Body.Close() //nolint:errcheck // the rest of the body is not needed
	if answer.StatusCode >= http.StatusInternalServerError {
		return fetched{}, fmt.Errorf("the address responded with %s", answer.Status)
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

// readDocument parses metadata, which must name their own address and contain no secret, because they are public.
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

// documentAge returns how long metadata are fresh by their headers.
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

// documentClient returns a client by the address of its metadata, which it fetches if they are unknown or no longer
// fresh. Former metadata remain in use for a day while the address does not respond.
func (c *call) documentClient(id string) (*consent.Client, bool, error) {
	known, inUse, err := c.findClient(id)
	if err != nil || inUse && c.now.Before(known.Registered.FreshUntil) {
		return known, inUse, err
	}
	if known != nil && !known.Active { // a backend deactivated it: the metadata cannot change that
		return nil, false, nil
	}
	asker := egress.Asker{Deployment: c.Deployment.Deployment, Source: account.NewClient(c.address(), "").WideNetwork}
	got, err := c.documents.fetch(c.r.Context(), asker, id)
	switch {
	case errors.Is(err, egress.ErrTooManyFetches):
		return nil, false, &Error{Status: http.StatusTooManyRequests, Code: "slow_down", Description: "too many client metadata were requested from this network: try again in a minute", RetryAfter: time.Minute}
	case errors.Is(err, errDocument):
		return nil, false, nil
	case err != nil && inUse && c.now.Before(known.Registered.FreshUntil.Add(maxDocumentAge)):
		return known, true, nil
	case err != nil:
		tracing.Logger(c.r.Context(), c.Log).Info("Fetching a client's metadata failed", "client", id, "error", err.Error())
		return nil, false, nil
	}
	err = c.change(func(u *account.Unit) (err error) {
		known, err = consent.PutDocument(u, c.App, id, *got.content, c.now.Add(got.age))
		return err
	})
	return known, err == nil && known.Active, tooManyClients(err)
}
