package e2e

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/client/guard"
	"github.com/cardea-iam/cardea/internal/totp"
)

// authenticatorApp is an authenticator app of a visitor.
type authenticatorApp struct {
	secret []byte
	// last is the time step of the newest code.
	last int64
	// proofs is how often the visitor was asked for a code after the enrollment.
	proofs int
}

// code returns a code that is accepted now and was not used before: of the step before, of this one, or of the next.
func (a *authenticatorApp) code() string {
	p := totp.Default()
	a.last = max(a.last+1, p.Step(time.Now())-1)
	return totp.Code(p, a.secret, a.last)
}

// enrollApp adds an authenticator app to the account, and signs the visitor in with the password only: the second step
// stays off.
func (v *visitor) enrollApp() {
	GinkgoHelper()
	begun := v.do("POST", "/me/second-factors/totp", `{}`).Data
	secret, err := totp.ParseSecret(begun["secret"].(string))
	Expect(err).NotTo(HaveOccurred())
	v.app = &authenticatorApp{secret: secret}
	v.do("POST", "/me/second-factors/totp/"+begun["id"].(string)+"/confirm", fmt.Sprintf(`{"code":%q}`, v.app.code()))
	v.do("PATCH", "/me/second-factors", `{"two_step":false}`)
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	v.browse(jar)
	v.signIn()
	Expect(v.do("GET", "/session/assurance", "").Data).To(HaveKeyWithValue("level", "one_factor"))
}

// proveByApp proves the visitor by a code of the authenticator app.
func (v *visitor) proveByApp() {
	GinkgoHelper()
	Expect(v.app).NotTo(BeNil(), "asked for a proof")
	v.app.proofs++
	v.do("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"totp","code":%q}`, v.app.code()))
}

// requireProofs serves an API beside the pages, for access tokens of an issuer. It returns the URLs of a resource that
// requires two factors, and of one that requires them within ten seconds.
func requireProofs(front *encrypted, issuer string) (records, recent string) {
	GinkgoHelper()
	tokens, err := guard.NewAccessTokens(guard.TokensOptions{Issuer: issuer, Audiences: []string{issuer}, HTTPClient: front.client})
	Expect(err).NotTo(HaveOccurred())
	for path, within := range map[string]time.Duration{"/api/records": 0, "/api/records/recent": 10 * time.Second} {
		front.mux.Handle(path, tokens.RequireAssurance("2", within)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })))
	}
	records = fmt.Sprintf("https://localhost:%d/api/records", front.port)
	return records, records + "/recent"
}
