package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/frontend/oauth"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// The client does not respond to the first delivery (OpenID Connect Back-Channel Logout).
func TestBackchannelLogoutIsDeliveredAndRetried(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		at := newSite(t)
		var mu sync.Mutex
		var tokens []string
		at.answers(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, r.PostFormValue("logout_token"))
			if len(tokens) == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		c := w.web("reports", func(d *document.OAuthClient) { d.BackchannelLogoutURI = at.URL + "/logout" })
		silent, p := w.web("silent", nil), w.signUp("ada@example.com")
		id := claimsIn(t, w, c.post("/token", redeem(p.allow(c.request("openid")).Get("code"))).text("id_token"))
		silent.post("/token", redeem(p.allow(silent.request("openid")).Get("code")))
		p.ask("POST", "/session/sign-out", map[string]any{})
		w.Eventually("the logout is delivered twice", func() bool {
			w.Clock.Advance(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			return len(tokens) == 2
		})
		mu.Lock()
		defer mu.Unlock()
		if tokens[0] != tokens[1] {
			t.Error("a retry is another token")
		}
		parsed, err := jwt.ParseSigned(tokens[1], []jose.SignatureAlgorithm{jose.ES256})
		w.Must(err)
		said := claimsIn(t, w, tokens[1])
		events, _ := said["events"].(map[string]any)
		if parsed.Headers[0].ExtraHeaders[jose.HeaderType] != "logout+jwt" || said["iss"] != issuer || fmt.Sprint(said["aud"]) != fmt.Sprint(id["aud"]) || said["sub"] != p.id || said["sid"] != id["sid"] || said["nonce"] != nil || said["jti"] == "" ||
			events["http://schemas.openid.net/event/backchannel-logout"] == nil {
			t.Errorf("%v", said)
		}
	})
}

// halfAway is a store with ended sign-ins of two deployments, where the rows of one cannot be changed.
type halfAway struct {
	people.Store
	away, other string
	asked       chan string
}

func (s *halfAway) LogoutsWaiting(context.Context) ([]string, error) {
	return []string{s.away, s.other}, nil
}

func (s *halfAway) Change(_ context.Context, deployment string, _ func(people.Tx) error) error {
	if deployment == s.away {
		return errors.New("a row of it cannot be read")
	}
	select {
	case s.asked <- deployment:
	default:
	}
	return nil
}

// Each deployment's clients are notified independently.
func TestOneTenantsFailureDoesNotDelayOtherLogouts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const other = "acme/other"
	w.Put(v1alpha1.KindIdentityDeployment, "other", other, "other", document.Deployment{DisplayName: "Other", Mode: "Staging", FieldConflicts: "Reject", ManagementWrites: "Enabled"})
	follower := snapshot.NewFollower(w.Store, time.Second, w.Clock.Now, logr.Discard())
	w.Follow(follower)
	st := &halfAway{w.Store, frontendtest.Deployment, other, make(chan string, 1)}
	server := oauth.New(oauth.Options{
		Snapshots: follower, Store: st, Keyring: w.Keyring, Egress: egress.NewPolicy(nil, nil), Clock: w.Clock.Now, Log: logr.Discard(),
		Metrics: httpapi.NewMetrics(prometheus.NewRegistry(), "oauth", nil),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx) })
	defer running.Wait()
	defer cancel()
	w.Eventually("the other deployment's clients are notified", func() bool {
		select {
		case deployment := <-st.asked:
			return deployment == other
		default:
			return false
		}
	})
}
