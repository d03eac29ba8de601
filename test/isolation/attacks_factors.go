package isolation

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/test/testkit"
	"github.com/cardea-iam/cardea/test/traffic"
)

// maxComparedCodes is how many guessed codes of an account may be compared for clients that it does not know: 50 a UTC
// day, and midnight may fall into the attack.
const maxComparedCodes = 100

// guessCodes guesses codes of an authenticator app. The attacker knows the password, and comes from many networks.
func (a *attack) guessCodes() error {
	owner := a.Newcomer()
	if err := a.SignUp(owner); err != nil {
		return err
	}
	secret, err := a.enroll(owner)
	if err != nil {
		return err
	}
	var compared atomic.Int64
	a.flood(20, func(n int) {
		guesser := testkit.NewVisitor(a.Host, owner.Email, traffic.Address(13, n))
		answer, err := guesser.SignIn(a.Server())
		if err != nil || answer.Status != http.StatusOK {
			return
		}
		var begun struct {
			Session struct {
				SignInAttempts []struct{ ID string } `json:"signin_attempts"`
			}
		}
		if json.Unmarshal(answer.Raw, &begun) != nil || len(begun.Session.SignInAttempts) != 1 {
			a.breached(fmt.Errorf("a password alone was no first step: %s", answer.Raw))
			return
		}
		for try := range 6 {
			body := fmt.Sprintf(`{"signin_attempt_id": %q, "strategy": "totp", "code": %q}`, begun.Session.SignInAttempts[0].ID, wrongCode(secret, 6*n+try))
			answer, err := guesser.Send(a.Server(), http.MethodPost, "/auth/attempt-second-factor", body)
			switch {
			case err != nil:
			case answer.Status == http.StatusOK:
				a.breached(fmt.Errorf("a wrong code was accepted: %s", answer.Raw))
			case strings.Contains(string(answer.Raw), "INVALID_CODE") && compared.Add(1) > maxComparedCodes:
				a.breached(fmt.Errorf("%d guessed codes were compared", compared.Load()))
			}
		}
	})
	return nil
}

// enroll adds an authenticator app to the account of a user after the sign-up, and returns its secret.
func (a *attack) enroll(owner *testkit.Visitor) ([]byte, error) {
	answer, err := owner.Send(a.Server(), http.MethodPost, "/me/second-factors/totp", `{}`)
	if err := testkit.Fault(answer, err); err != nil {
		return nil, err
	}
	var begun struct{ Data struct{ ID, Secret string } }
	if err := json.Unmarshal(answer.Raw, &begun); err != nil {
		return nil, err
	}
	secret, err := totp.ParseSecret(begun.Data.Secret)
	if err != nil {
		return nil, err
	}
	p := totp.Default()
	code := totp.Code(p, secret, p.Step(time.Now()))
	return secret, testkit.Fault(owner.Send(a.Server(), http.MethodPost, "/me/second-factors/totp/"+begun.Data.ID+"/confirm", fmt.Sprintf(`{"code": %q}`, code)))
}

// wrongCode returns a guess that is no code of the secret now.
func wrongCode(secret []byte, n int) string {
	p := totp.Default()
	var right []string
	for step := p.Step(time.Now()) - 3; len(right) < 8; step++ {
		right = append(right, totp.Code(p, secret, step))
	}
	for ; ; n++ {
		if guess := fmt.Sprintf("%06d", n%1_000_000); !slices.Contains(right, guess) {
			return guess
		}
	}
}

// forgePasskeys sends assertions of passkeys that do not exist, with challenges that the server made.
func (a *attack) forgePasskeys() error {
	text := base64.RawURLEncoding.EncodeToString
	a.flood(100, func(n int) {
		from := traffic.Address(14, n)
		options, err := a.Visit(a.Server(), http.MethodPost, "/auth/passkey-options", from, "application/json", strings.NewReader(`{}`))
		if err != nil || options.Status != http.StatusOK {
			return
		}
		var data struct {
			Data struct {
				PublicKey struct{ Challenge, RPID string } `json:"public_key"`
			}
		}
		if json.Unmarshal(options.Raw, &data) != nil {
			return
		}
		client := fmt.Sprintf(`{"type":"webauthn.get","challenge":%q,"origin":"http://%s","crossOrigin":false}`, data.Data.PublicKey.Challenge, a.Host)
		id := text(fmt.Appendf(nil, "credential %d", n))
		body := fmt.Sprintf(`{"strategy":"passkey","credential":{"id":%q,"rawId":%q,"type":"public-key","clientExtensionResults":{},`+
			`"response":{"clientDataJSON":%q,"authenticatorData":%q,"signature":%q,"userHandle":%q}}}`,
			id, id, text([]byte(client)), text(make([]byte, 37)), text(make([]byte, 70)), text([]byte(id)))
		answer, err := a.Visit(a.Server(), http.MethodPost, "/auth/signin", from, "application/json", strings.NewReader(body))
		if err == nil && answer.Status == http.StatusOK {
			a.breached(fmt.Errorf("a forged passkey signed in: %s", answer.Raw))
		}
	})
	return nil
}
