package decision

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// matrixCredential is a credential of the matrix.
type matrixCredential struct {
	name, value string
	kind        kind
	// good reports whether apps/acme accepts it.
	good bool
}

// way is one way to request a decision of apps/acme. ask presents a credential as one of a kind, and reports whether it
// is accepted.
type way struct {
	name string
	ask  func(value string, as kind, client string) (accepted bool, answer string)
}

// givenElsewhere creates a runtime key of the other deployment.
func (w *world) givenElsewhere() string {
	key, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	row := people.APIKey{
		ID: 9000, PublicID: key.ID(), Digest: key.Digest(), Prefix: "ck", Suffix: key.Last4(), App: "shop", Name: "Elsewhere",
		Permissions: []string{"orders:read"}, CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now(),
	}
	w.Must(w.Store.Change(w.T.Context(), "rivals/rival", func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(row) }))
	return key.Plain()
}

// credentials returns one credential of each sort, valid or not, of apps/acme and of another deployment.
func (w *world) credentials() []matrixCredential {
	token := w.signing()
	past := w.Clock.Now().Add(-time.Minute)
	return []matrixCredential{
		{"a declared key", w.plain, kindAPIKey, true},
		{"a runtime key", w.given(func(*people.APIKey) {}), kindAPIKey, true},
		{"a session's token", token(func(*jwt.Claims) {}), kindSession, true},
		{"an expired declared key", w.declare("expired", func(k *document.APIKey) { k.Verifiers[0].ExpiresAt = &past }), kindAPIKey, false},
		{"an expired runtime key", w.given(func(k *people.APIKey) { k.ExpiresAt = past }), kindAPIKey, false},
		{"a revoked runtime key", w.given(func(k *people.APIKey) { k.RevokedAt = past }), kindAPIKey, false},
		{"an expired session's token", token(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(past) }), kindSession, false},
		{"a session's token for another deployment", token(func(c *jwt.Claims) { c.Audience = jwt.Audience{"cardea:rivals:rival"} }), kindSession, false},
		{"a declared key of another deployment", w.neighbor(), kindAPIKey, false},
		{"a runtime key of another deployment", w.givenElsewhere(), kindAPIKey, false},
	}
}

// ways returns all ways to request a decision.
func (w *world) ways() (all []way) {
	envoy := w.envoy()
	status := func(a answer) (bool, string) {
		// An accepted credential may have used up its limit.
		return a.StatusCode == http.StatusOK || a.StatusCode == http.StatusTooManyRequests, fmt.Sprint(a.StatusCode, a.body)
	}
	for name, prefix := range map[string]string{"member": "", "path": "/deployments/apps/acme"} {
		all = append(all, way{"check, deployment by " + name, func(value string, as kind, client string) (bool, string) {
			member := ""
			if prefix == "" {
				member = `,"deployment":"apps/acme"`
			}
			return status(w.ask(http.MethodPost, prefix+"/v1/authz/check",
				`{"principal":{"type":"`+as.String()+`","value":"`+value+`"},"method":"GET","resource":"/","client_ip":"`+client+`"`+member+`}`))
		}})
	}
	for _, gateway := range []string{"caddy", "traefik", "nginx", "envoy"} {
		all = append(all, way{"forward-auth of " + gateway, func(value string, as kind, client string) (bool, string) {
			target := "/v1/forward/" + gateway + "?deployment=apps/acme&principal=" + as.String()
			headers := []string{
				"Authorization: Bearer " + value, "X-Forwarded-For: " + client, "X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Original-Method: GET", "X-Original-Uri: /",
			}
			if gateway == "envoy" { // its path and query are the client's
				target = "/deployments/apps/acme/v1/forward/envoy/"
			}
			return status(w.ask(http.MethodGet, target, "", headers...))
		}})
	}
	return append(all, way{"Envoy's gRPC", func(value string, as kind, client string) (bool, string) {
		out, err := envoy.Check(w.T.Context(), asked("GET", "/", client, map[string]string{"authorization": "Bearer " + value}, map[string]string{"deployment": "apps/acme", "principal": as.String()}))
		w.Must(err)
		code := codes.Code(out.GetStatus().GetCode())
		return code != codes.Unauthenticated && code != codes.PermissionDenied && code != codes.InvalidArgument, code.String()
	}})
}

// Every way, credential and kind is combined, twice: the second decision may use the cache.
func TestDecisionMatrix(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AnyDeployment = true })
	credentials, ways, asked := w.credentials(), w.ways(), 0
	for round := range 2 {
		for _, way := range ways {
			for _, c := range credentials {
				for as := range kind(len(kindNames)) {
					kindless := strings.HasSuffix(way.name, "of envoy") // a client chooses its path, so it names no kind
					if kindless && as != c.kind {
						continue
					}
					asked++
					client := fmt.Sprintf("198.51.%d.%d", asked/250, asked%250) // failed attempts of one client are throttled
					accepted, answer := way.ask(c.value, as, client)
					if want := c.good && as == c.kind; accepted != want {
						t.Errorf("%s: %s as %s, round %d: accepted %t, want %t: %s", way.name, c.name, as, round, accepted, want, answer)
					}
				}
			}
		}
	}
	if len(ways) < 6 || asked < 300 {
		t.Errorf("%d ways, %d questions", len(ways), asked)
	}
	operator := w.operator()
	for _, c := range credentials {
		if c.kind != kindAPIKey {
			continue
		}
		a := w.ask("GET", "/v1/authz/explain?deployment=apps/acme&method=GET&resource=/&key_id="+c.value[3:15], "", "Authorization: Bearer "+operator)
		elsewhere := strings.Contains(c.name, "another deployment")
		if elsewhere && a.StatusCode != http.StatusNotFound || !elsewhere && (a.StatusCode != http.StatusOK || !c.good && a.body["allowed"] != false) {
			t.Errorf("explain of %s: %d %v", c.name, a.StatusCode, a.body)
		}
	}
}
