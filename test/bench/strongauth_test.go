package bench

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// passkeyAccounts have one passkey each. An account may sign in by passkey 300 times a day, so there are many.
	passkeyAccounts = 100
	// passkeyRound is how many sign-ins by passkey a round has. Their assertions are signed before the round.
	passkeyRound = 600
	// bareRound is how many bare verifications and passwordRound how many sign-ins by password a round has.
	bareRound, passwordRound = 4000, 15
)

// strongWorld is a peopleWorld with a signing key, and with accounts that have passkeys.
type strongWorld struct {
	*peopleWorld
	settings document.Deployment
	rp       virtualwebauthn.RelyingParty
	devices  []*passkeyDevice
	turn     int
}

type passkeyDevice struct {
	key  virtualwebauthn.Credential
	auth virtualwebauthn.Authenticator
}

// TestBenchStrongAuthentication compares sign-ins by passkey with bare signature verifications, with sign-ins by
// password and with organization switches, and requests under a required level with the same requests without one.
func TestBenchStrongAuthentication(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		t.Run(engine, func(t *testing.T) {
			w := newStrongWorld(t, engine)
			if engine == "SQLite" {
				w.compareOnOneProcessor(t)
			}
			w.compareWithSwitches(t, engine)
			w.comparePolicies(t, engine)
			w.countStatements(t, engine)
		})
	}
}

func newStrongWorld(t *testing.T, engine string) *strongWorld {
	t.Helper()
	w := &strongWorld{peopleWorld: newPeopleWorld(t, engine), rp: virtualwebauthn.RelyingParty{ID: benchHost, Name: "Acme", Origin: "http://" + benchHost}}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	public, err := json.Marshal(jose.JSONWebKey{Key: private.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"})
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	w.settings = document.Deployment{
		Mode: "Staging", FrontendHosts: []string{benchHost}, Assurance: &document.Assurance{Passkey: true, TOTP: true, RelyingParty: benchHost},
		SigningKeys: []document.SigningKey{{ID: "k", Public: public, Sealed: w.keyring.Seal(document.SealedSigningKey, "k", der)}},
	}
	w.require(t, "")
	for i := range passkeyAccounts {
		w.devices = append(w.devices, w.device(t, int64(5000+i)))
	}
	return w
}

// require declares a level that the deployment, owners and organizations require, "" for none, and waits until it is
// active.
func (w *strongWorld) require(t *testing.T, level string) {
	t.Helper()
	settings, b2b := w.settings, document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5}
	strong := *settings.Assurance
	settings.Assurance = &strong
	if level != "" {
		strong.Required, b2b.OwnerAssurance = &document.Requirement{Level: level}, &document.Requirement{Level: level}
	}
	check(t, w.filler.replace(t.Context(), v1alpha1.KindB2BSettings, "b2b", "b2b", 2, b2b))
	check(t, w.filler.replace(t.Context(), v1alpha1.KindIdentityDeployment, deployment, deployment, 1, settings))
	want := level
	if want == "" {
		want = "one_factor"
	}
	await(t, time.Minute, 10*time.Millisecond, func() bool {
		config := w.do(t, &person{}, "GET", "/auth/config", "")
		passkey, _ := config["passkey"].(map[string]any)
		second, _ := config["second_factor"].(map[string]any)
		return passkey["enabled"] == true && second["required"] == want
	})
}

// device inserts an account with a passkey into the store.
func (w *strongWorld) device(t *testing.T, id int64) *passkeyDevice {
	t.Helper()
	handle := fmt.Appendf(nil, "%032d", id)
	d := &passkeyDevice{key: frontendtest.NewCredential(), auth: virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{
		UserHandle: handle, BackupEligible: true, BackupState: true,
	})}
	d.auth.AddCredential(d.key)
	check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
		address := people.Email{ID: id, Address: fmt.Sprintf("passkey%d@example.com", id), Primary: true, CreatedAt: time.Now()}
		if err := tx.Users().InsertUser(people.User{ID: id, CreatedAt: time.Now()}, address); err != nil {
			return err
		}
		return tx.Factors().InsertPasskey(people.Passkey{
			ID: id, User: id, RelyingParty: benchHost, Credential: d.key.ID, Handle: handle, PublicKey: d.key.Key.AttestationData(),
			BackupEligible: 1, BackedUp: true, Verified: true, AAGUID: make([]byte, 16), Name: "Laptop", CreatedAt: time.Now(),
		})
	}))
	return d
}

// assertions returns the bodies of n sign-ins by passkey. The accounts take turns.
func (w *strongWorld) assertions(t *testing.T, n int) []string {
	t.Helper()
	bodies := make([]string, n)
	for i := range bodies {
		data := w.do(t, &person{}, "POST", "/auth/passkey-options", `{}`)
		raw, err := json.Marshal(map[string]any{"publicKey": data["public_key"]})
		check(t, err)
		options, err := virtualwebauthn.ParseAssertionOptions(string(raw))
		check(t, err)
		d := w.devices[w.turn%len(w.devices)]
		w.turn++
		bodies[i] = `{"strategy":"passkey","credential":` + virtualwebauthn.CreateAssertionResponse(w.rp, d.auth, d.key, *options) + `}`
	}
	return bodies
}

func (w *strongWorld) signIn(t *testing.T, body string) {
	if recorder := w.ask(&person{}, "POST", "/auth/signin", body); recorder.Code != http.StatusOK {
		t.Errorf("sign-in by passkey: %s", recorder.Body)
	}
}

// compareOnOneProcessor measures sign-ins by passkey, by password, and bare signature verifications in rounds that
// alternate.
func (w *strongWorld) compareOnOneProcessor(t *testing.T) {
	t.Helper()
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	digest := sha256.Sum256([]byte("message"))
	signature, err := ecdsa.SignASN1(rand.Reader, private, digest[:])
	check(t, err)
	var passkeys, toBare, toPasswords []float64
	for range peopleRounds {
		bodies := w.assertions(t, passkeyRound)
		passkey := perSecond(passkeyRound, func(i int) { w.signIn(t, bodies[i]) })
		bare := perSecond(bareRound, func(int) {
			if !ecdsa.VerifyASN1(&private.PublicKey, digest[:], signature) {
				t.Error("the signature does not verify")
			}
		})
		password := perSecond(passwordRound, func(i int) {
			w.do(t, &person{}, "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"user%d@example.com","password":%q}`, i%people8, benchPassword))
		})
		passkeys, toBare, toPasswords = append(passkeys, passkey), append(toBare, passkey/bare), append(toPasswords, passkey/password)
	}
	row("SQLite, sign-ins by passkey a second and processor", "-", "%.0f", median(passkeys))
	row("SQLite, sign-ins by passkey to bare P-256 verifications, one processor", "0.015", "%.4f", median(toBare))
	row("SQLite, sign-ins by passkey to sign-ins by password, one processor", "8", "%.1f", median(toPasswords))
}

// perSecond returns how often a second work was done n times in a row.
func perSecond(n int, work func(i int)) float64 {
	begin := time.Now()
	for i := range n {
		work(i)
	}
	return float64(n) / time.Since(begin).Seconds()
}

// compareWithSwitches measures concurrent sign-ins by passkey and organization switches in rounds that alternate. Each
// is one durable transaction.
func (w *strongWorld) compareWithSwitches(t *testing.T, engine string) {
	t.Helper()
	var rates, ratios []float64
	for range peopleRounds {
		bodies := w.assertions(t, 2*passkeyRound)
		var next atomic.Int64
		var group sync.WaitGroup
		begin := time.Now()
		for range people8 {
			group.Go(func() {
				for n := next.Add(1); n <= int64(len(bodies)); n = next.Add(1) {
					w.signIn(t, bodies[n-1])
				}
			})
		}
		group.Wait()
		passkey := float64(len(bodies)) / time.Since(begin).Seconds()
		switches, _ := atOnce(func(i int) { w.switchOrganization(t, w.persons[i]) })
		rates, ratios = append(rates, passkey), append(ratios, passkey/switches)
	}
	row(engine+", sign-ins by passkey to switch-organization, 8 callers", "0.5", "%.2f (%.0f a second)", median(ratios), median(rates))
}

// comparePolicies measures requests of users with passkeys, who own an organization, while the deployment and owners
// require a phishing-resistant level, and while nothing is required.
func (w *strongWorld) comparePolicies(t *testing.T, engine string) {
	t.Helper()
	var persons []*person
	for i, body := range w.assertions(t, people8) {
		p := &person{}
		w.do(t, p, "POST", "/auth/signin", body)
		organization := w.do(t, p, "POST", "/organizations", fmt.Sprintf(`{"name":"Required %d"}`, i))["organization"].(map[string]any)
		w.do(t, p, "POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, organization["id"]))
		persons = append(persons, p)
	}
	requests := map[string]func(*person) int{
		"GET /session":        func(p *person) int { return w.ask(p, "GET", "/session", "").Code },
		"POST /session/token": func(p *person) int { return w.ask(p, "POST", "/session/token", `{}`).Code },
	}
	for _, what := range []string{"GET /session", "POST /session/token"} {
		measure := func() float64 {
			rate, _ := atOnce(func(i int) {
				if code := requests[what](persons[i]); code != http.StatusOK {
					t.Errorf("%s: %d", what, code)
				}
			})
			return rate
		}
		measure()
		var ratios []float64
		for range peopleRounds {
			without := measure()
			w.require(t, "phishing_resistant")
			with := measure()
			w.require(t, "")
			ratios = append(ratios, with/((without+measure())/2))
		}
		row(engine+", "+what+" with a level required everywhere to without", "0.95", "%.2f", median(ratios))
	}
}

// countStatements prints how many statements requests of a user without organization need, with and without a required
// level, and how many the options of a passkey need.
func (w *strongWorld) countStatements(t *testing.T, engine string) {
	t.Helper()
	p := &person{}
	w.do(t, p, "POST", "/auth/signin", w.assertions(t, 1)[0])
	count := func() (counts [2]int) {
		counts[0] = len(w.recording.of(func() { w.do(t, p, "GET", "/session", "") }))
		counts[1] = len(w.recording.of(func() { w.do(t, p, "POST", "/session/token", `{}`) }))
		return counts
	}
	count()
	without := count()
	w.require(t, "phishing_resistant")
	with := count()
	w.require(t, "")
	row(engine+", statements of GET /session and POST /session/token without organization, with a required level", "as without",
		"%d, %d (without %d, %d)", with[0], with[1], without[0], without[1])
	row(engine+", statements of POST /auth/passkey-options", "0", "%d", len(w.recording.of(func() { w.do(t, &person{}, "POST", "/auth/passkey-options", `{}`) })))
}
