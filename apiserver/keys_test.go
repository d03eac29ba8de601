package apiserver_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const acme = "apps/acme"

// replicas are servers with one store.
type replicas struct {
	*servertest.World
	servers []*apiserver.Server
	// admin has every permission.
	admin string
}

// newReplicas starts servers with a new PostgreSQL database, each with its own connections.
func newReplicas(t *testing.T, n int) *replicas {
	t.Helper()
	w := newReplicated(t, servertest.Postgres(t))
	for range n {
		st := w.OpenStore()
		w.servers = append(w.servers, w.start(st))
	}
	return w
}

// newReplicated returns a deployment without a server, in a new store at a URL.
func newReplicated(t *testing.T, url string) *replicas {
	t.Helper()
	w := &replicas{World: servertest.New(t, url, nil)}
	admin, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.admin = admin.Plain()
	w.Put(v1alpha1.KindIdentityDeployment, "acme", acme, "", document.Deployment{ManagementWrites: "Enabled", FieldConflicts: "Reject"})
	w.Put(v1alpha1.KindAPIAuthApp, "app", acme, "app", document.APIAuthApp{Slug: "app", Name: "App", Active: true, Permissions: []string{"*"}})
	w.Put(v1alpha1.KindAPIKey, "admin", acme, "", document.APIKey{App: "app", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: admin.ID(), Digest: admin.Digest()}}})
	return w
}

func (w *replicas) start(st store.Store) *apiserver.Server {
	w.T.Helper()
	server, err := apiserver.New(apiserver.Options{
		Feed: st, People: st, Keyring: w.Keyring, Clock: time.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
	})
	w.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = server.Follow(ctx) })
	w.T.Cleanup(func() {
		cancel()
		following.Wait()
	})
	w.Eventually("a server is ready", server.Ready)
	return server
}

// ask sends a request to a replica and returns the status and the body.
func (w *replicas) ask(server int, credential, method, path, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+credential)
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	w.servers[server].Backend().ServeHTTP(answer, r)
	return answer.Code, answer.Body.String()
}

// accepts reports whether a replica accepts a key.
func (w *replicas) accepts(server int, key string) bool {
	status, body := w.ask(server, key, "GET", "/api-auth/apps", "")
	if status != http.StatusOK && status != http.StatusUnauthorized {
		w.T.Errorf("%d %s", status, body)
	}
	return status == http.StatusOK
}

// makes creates a key that every replica caches, and returns its id and its secret.
func (w *replicas) makes(body string) (id, secret string) {
	w.T.Helper()
	status, answer := w.ask(0, w.admin, "POST", "/api-auth/apps/app/keys", body)
	var made struct {
		Key    struct{ ID string }
		Secret string
	}
	if err := json.Unmarshal([]byte(answer), &made); err != nil || status != http.StatusOK {
		w.T.Fatalf("%d %s", status, answer)
	}
	for server := range w.servers {
		if !w.accepts(server, made.Secret) {
			w.T.Fatalf("replica %d refuses a new key", server)
		}
	}
	return made.Key.ID, made.Secret
}

// deadWithin checks that every replica refuses a key within a time.
func (w *replicas) deadWithin(bound time.Duration, what, key string) {
	w.T.Helper()
	deadline := time.Now().Add(bound)
	for server := range w.servers {
		for w.accepts(server, key) {
			if time.Now().After(deadline) {
				w.T.Fatalf("%s: replica %d accepts the key after %s", what, server, bound)
			}
		}
	}
}

func TestRevokedKeyIsRefusedOnEveryReplicaWithinASecond(t *testing.T) {
	t.Parallel()
	w := newReplicas(t, 2)
	const body = `{"name":"key","permissions":["api_auth_apps:read"]}`
	for range 5 {
		id, secret := w.makes(body)
		if status, answer := w.ask(0, w.admin, "POST", "/api-auth/apps/app/keys/"+id+"/revoke", `{}`); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		w.deadWithin(time.Second, "revoked", secret)
	}
	id, secret := w.makes(body)
	if status, answer := w.ask(1, w.admin, "POST", "/api-auth/apps/app/keys/"+id+"/rotate", `{}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	w.deadWithin(time.Second, "rotated", secret)
	id, secret = w.makes(body)
	if status, answer := w.ask(1, w.admin, "PATCH", "/api-auth/apps/app/keys/"+id, `{"expires_at":"`+time.Now().Add(300*time.Millisecond).UTC().Format(time.RFC3339Nano)+`"}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	w.deadWithin(2*time.Second, "expired", secret)
}

func TestKeyUseIsWrittenWithinSeconds(t *testing.T) {
	t.Parallel()
	w := newReplicas(t, 2)
	id, _ := w.makes(`{"name":"key","permissions":["api_auth_apps:read"]}`)
	w.Eventually("the use is written", func() bool {
		_, answer := w.ask(1, w.admin, "GET", "/api-auth/apps/app/keys/"+id, "")
		var key struct {
			LastUsedAt *time.Time `json:"last_used_at"`
		}
		w.Must(json.Unmarshal([]byte(answer), &key))
		return key.LastUsedAt != nil && time.Since(*key.LastUsedAt) < time.Minute
	})
}

// A rotation that is concurrent with the end of the owner's access leaves no active key, whichever commits first.
func TestKeyRotationDuringEndOfAccessLeavesNoKey(t *testing.T) {
	t.Parallel()
	w := newReplicas(t, 1)
	follower := snapshot.NewFollower(w.Store, time.Hour, time.Now, logr.Discard())
	w.Follow(follower)
	s := follower.Current()
	deployment, _ := s.Deployment(acme)
	request := func() *account.Request {
		return &account.Request{
			Tenant: account.NewTenant(s, deployment), Store: w.Store, Random: rand.Reader, Now: time.Now().UTC().Truncate(time.Microsecond), Actor: "test",
			Client: account.NewClient(netip.MustParseAddr("192.0.2.1"), "test"),
		}
	}
	for round := range 25 {
		var owner people.User
		w.Must(request().Change(t.Context(), func(u *account.Unit) (err error) {
			owner, err = u.CreateAccount(account.NewAccount{Email: fmt.Sprintf("owner%d@example.com", round), Method: people.MethodEmailOTP})
			return err
		}))
		status, answer := w.ask(0, w.admin, "POST", "/api-auth/apps/app/keys", fmt.Sprintf(`{"name":"key","owner_user_id":"%d"}`, owner.ID))
		var made struct{ Key struct{ ID string } }
		if err := json.Unmarshal([]byte(answer), &made); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		var racing sync.WaitGroup
		racing.Go(func() { w.ask(0, w.admin, "POST", "/api-auth/apps/app/keys/"+made.Key.ID+"/rotate", `{}`) })
		w.Must(request().Change(t.Context(), func(u *account.Unit) error {
			if _, _, err := u.Users().LockUser(owner.ID); err != nil {
				return err
			}
			return account.EndAccess(u, owner.ID, time.Time{})
		}))
		racing.Wait()
		if status, answer := w.ask(0, w.admin, "GET", fmt.Sprintf("/api-auth/apps/app/keys?owner_user_id=%d", owner.ID), ""); status != http.StatusOK || !strings.Contains(answer, `"keys":[]`) {
			t.Fatalf("round %d: %d %s", round, status, answer)
		}
	}
}
