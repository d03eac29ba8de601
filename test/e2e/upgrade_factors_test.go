package e2e

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/test/testkit"
)

// enrolled is a user with an authenticator app and recovery codes.
type enrolled struct {
	*visitor
	secret []byte
	codes  []any
	next   int
}

// enroll signs a user up and adds an authenticator app.
func enroll(host string, inbox *messagegateway.Gateway, server *testkit.Cardea) *enrolled {
	GinkgoHelper()
	user := &enrolled{visitor: newVisitor(host, inbox, server)}
	user.signUp()
	begun := user.do("POST", "/me/second-factors/totp", `{}`).Data
	var err error
	user.secret, err = totp.ParseSecret(begun["secret"].(string))
	Expect(err).NotTo(HaveOccurred())
	path := fmt.Sprintf("/me/second-factors/totp/%s/confirm", begun["id"])
	user.codes = user.do("POST", path, fmt.Sprintf(`{"code":%q}`, user.appCode(0))).Data["codes"].([]any)
	Expect(user.codes).To(HaveLen(10))
	return user
}

// appCode returns the app's code of a time step, counted from the present one.
func (e *enrolled) appCode(ahead int64) string {
	p := totp.Default()
	return totp.Code(p, e.secret, p.Step(time.Now())+ahead)
}

// recoveryCode returns a recovery code that was not used yet.
func (e *enrolled) recoveryCode() string {
	e.next++
	return e.codes[e.next-1].(string)
}

// anew returns the user in a new browser, without a session.
func (e *enrolled) anew(inbox *messagegateway.Gateway, server *testkit.Cardea) *visitor {
	GinkgoHelper()
	v := newVisitor(e.host, inbox, server)
	v.email = e.email
	return v
}

// expectSecondStep signs in by password and expects that a second factor is asked for, and that it signs in.
func expectSecondStep(v *visitor, strategy, code string) {
	GinkgoHelper()
	begun := v.do("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, v.email, visitorPassword))
	Expect(begun.Session.SignInAttempts).To(HaveLen(1))
	Expect(begun.Session.SignInAttempts[0].CurrentStep).To(Equal("second_factor"))
	Expect(v.do("GET", "/session", "").Data["user"]).To(BeNil())
	v.do("POST", "/auth/attempt-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":%q,"code":%q}`, begun.Session.SignInAttempts[0].ID, strategy, code))
	Expect(v.do("GET", "/me", "").Data).To(HaveKeyWithValue("email", v.email))
}

// awaitApps waits until a server's configuration permits authenticator apps, or forbids them. An operator that was just
// started needs some time to write the deployment.
func awaitApps(host string, inbox *messagegateway.Gateway, server *testkit.Cardea, permitted bool) {
	GinkgoHelper()
	visitor := newVisitor(host, inbox, server)
	Eventually(func(g Gomega) {
		config, err := visitor.send("GET", "/auth/config", "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(config.Data).To(HaveKeyWithValue("second_factor", HaveKeyWithValue("totp", permitted)))
	}).Should(Succeed())
}

// expectNoEnrollment signs a new user up and expects that the deployment takes no factors.
func expectNoEnrollment(host string, inbox *messagegateway.Gateway, server *testkit.Cardea) {
	GinkgoHelper()
	user := newVisitor(host, inbox, server)
	user.signUp()
	refused, err := user.send("POST", "/me/second-factors/totp", `{}`)
	Expect(err).NotTo(HaveOccurred())
	Expect(refused.Status).To(Equal(403))
	Expect(refused.code()).To(Equal("SECOND_FACTORS_DISABLED"))
}
