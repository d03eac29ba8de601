package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	content "github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

// content reads the stored document of a resource.
func (w *world) content(ctx context.Context, kind, name string, into any) {
	GinkgoHelper()
	_, err := content.Decode(w.held(ctx, kind, name).Document.Payload, into)
	Expect(err).NotTo(HaveOccurred())
}

// apply applies YAML in the world's namespace, as users do, and returns what kubectl printed.
func (w *world) apply(ctx context.Context, yaml string) {
	GinkgoHelper()
	out, err := cluster.Kubectl(ctx, yaml, "apply", "-n", w.namespace, "-f", "-")
	Expect(err).NotTo(HaveOccurred(), out)
}

// shown is what kubectl shows of a resource.
func (w *world) shown(ctx context.Context, resource, jsonpath string) func() string {
	return func() string {
		GinkgoHelper()
		out, err := cluster.Kubectl(ctx, "", "get", resource, "-n", w.namespace, "-o", "jsonpath="+jsonpath)
		Expect(err).NotTo(HaveOccurred(), out)
		return out
	}
}

// conditionPath is the JSONPath of a condition's status, reason and message.
func conditionPath(kind string) string {
	one := func(field string) string { return fmt.Sprintf(`{.status.conditions[?(@.type=="%s")].%s}`, kind, field) }
	return one("status") + "/" + one("reason") + " " + one("message")
}

const strongYAML = `
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: acme}
spec:
  displayName: "Acme: Identity"
  frontendHosts: [login.HOST]
  signIn: {passkey: {enabled: true, relyingPartyID: HOST}}
  secondFactor: {totp: {enabled: true}}
  assurance: {required: TwoFactors, enforceFrom: "2035-01-01T01:00:00+01:00", gracePeriodSeconds: 604800}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: MembershipRole
metadata: {name: admin}
spec: {deploymentRef: {name: acme}, level: Organization, assurance: {required: PhishingResistant, enforceFrom: "2035-01-01T00:00:00Z"}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: B2BSettings
metadata: {name: acme}
spec: {deploymentRef: {name: acme}, enabled: true, ownerAssurance: {required: TwoFactors}, organizationAssurance: Disabled}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: portal}
spec: {deploymentRef: {name: acme}, slug: portal}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthClient
metadata: {name: billing}
spec: {oauthAppRef: {name: portal}, authentication: None, redirectURIs: ["https://app.example/cb"], assurance: {required: TwoFactors, maxAgeSeconds: 3600}}
`

var _ = Describe("Strong authentication", func() {
	var w *world
	var host string
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		host = w.namespace + ".acme.example"
	})
	ready := func(ctx context.Context, resources ...string) {
		GinkgoHelper()
		for _, resource := range resources {
			Eventually(w.shown(ctx, resource, conditionPath(v1alpha1.ConditionReady))).Should(HavePrefix("True/"))
		}
	}
	patch := func(ctx context.Context, resource, body string) {
		GinkgoHelper()
		out, err := cluster.Kubectl(ctx, "", "patch", resource, "-n", w.namespace, "--type=merge", "-p", body)
		Expect(err).NotTo(HaveOccurred(), out)
	}

	It("reaches the servers' documents as it is declared", func(ctx context.Context) {
		w.apply(ctx, strings.ReplaceAll(strongYAML, "HOST", host))
		ready(ctx, "identitydeployment/acme", "membershiprole/admin", "b2bsettings/acme", "oauthclient/billing")

		from := time.Date(2035, time.January, 1, 0, 0, 0, 0, time.UTC)
		var deployment content.Deployment
		w.content(ctx, v1alpha1.KindIdentityDeployment, "acme", &deployment)
		Expect(deployment.Assurance).To(Equal(&content.Assurance{
			Required: &content.Requirement{Level: "two_factors", From: &from}, GraceSeconds: 604800, Passkey: true, TOTP: true, RelyingParty: host, TOTPIssuer: "Acme Identity",
		}))
		var role content.MembershipRole
		w.content(ctx, v1alpha1.KindMembershipRole, "admin", &role)
		Expect(role.Assurance).To(Equal(&content.Requirement{Level: "phishing_resistant", From: &from}))
		var settings content.B2BSettings
		w.content(ctx, v1alpha1.KindB2BSettings, "acme", &settings)
		Expect(settings.OwnerAssurance).To(Equal(&content.Requirement{Level: "two_factors"}))
		Expect(settings.OrganizationAssuranceOff).To(BeTrue())
		var oauthClient content.OAuthClient
		w.content(ctx, v1alpha1.KindOAuthClient, "billing", &oauthClient)
		Expect(oauthClient.Assurance).To(Equal(&content.ClientAssurance{Level: "two_factors", MaxAgeSeconds: ptr.To[int64](3600)}))

		Expect(w.shown(ctx, "idep/acme", "{.status.passkeys}")()).To(MatchJSON(fmt.Sprintf(`{"relyingPartyID": %q, "origins": ["https://login.%s"]}`, host, host)))
		Expect(w.shown(ctx, "idep/acme", conditionPath(v1alpha1.ConditionPasskeysReady))()).To(HavePrefix("True/Usable "))
		Expect(w.shown(ctx, "idep/acme", conditionPath(v1alpha1.ConditionRelyingPartyChanged))()).To(Equal("/ "))
	})

	It("is on where nothing is declared, and reports nothing for a deployment without end users", func(ctx context.Context) {
		create(ctx, testkit.Deployment(w.namespace, "plain"))
		ready(ctx, "idep/plain")
		var deployment content.Deployment
		w.content(ctx, v1alpha1.KindIdentityDeployment, "plain", &deployment)
		Expect(deployment.Assurance).To(Equal(&content.Assurance{Passkey: true, TOTP: true, TOTPIssuer: "plain"}))
		Expect(w.shown(ctx, "idep/plain", "{.status.passkeys}")()).To(BeEmpty())
		Expect(w.shown(ctx, "idep/plain", conditionPath(v1alpha1.ConditionPasskeysReady))()).To(Equal("/ "))
	})

	It("is refused where no user could reach it, until the deployment enables a factor", func(ctx context.Context) {
		w.apply(ctx, strings.ReplaceAll(strongYAML, "HOST", host))
		resources := []string{"membershiprole/admin", "b2bsettings/acme", "oauthclient/billing"}
		ready(ctx, resources...)
		patch(ctx, "idep/acme", `{"spec": {"assurance": null, "secondFactor": {"totp": {"enabled": false}}, "signIn": {"passkey": {"enabled": false}}}}`)
		for _, resource := range resources {
			Eventually(w.shown(ctx, resource, conditionPath(v1alpha1.ConditionAccepted))).Should(And(HavePrefix("False/AssuranceUnreachable spec."),
				ContainSubstring(`no user of deployment "acme" can reach`), ContainSubstring("enable spec."), ContainSubstring("signIn.passkey (with a host in spec.frontendHosts) there, or require a lower level")), resource)
		}
		// The other resources may be checked before the deployment's own status is written.
		Eventually(w.shown(ctx, "idep/acme", conditionPath(v1alpha1.ConditionPasskeysReady))).Should(Equal("/ "), "passkeys are disabled")
		Eventually(w.shown(ctx, "idep/acme", "{.status.passkeys}")).Should(BeEmpty())
		var role content.MembershipRole
		w.content(ctx, v1alpha1.KindMembershipRole, "admin", &role)
		Expect(role.Assurance).NotTo(BeNil(), "the last accepted content stays active")

		patch(ctx, "idep/acme", `{"spec": {"secondFactor": {"totp": {"enabled": true}}}}`)
		ready(ctx, "b2bsettings/acme", "oauthclient/billing")
		Expect(w.shown(ctx, "membershiprole/admin", conditionPath(v1alpha1.ConditionAccepted))()).To(HavePrefix("False/AssuranceUnreachable"), "TOTP does not resist phishing")
		patch(ctx, "idep/acme", `{"spec": {"signIn": {"passkey": {"enabled": true}}}}`)
		ready(ctx, resources...)
		patch(ctx, "idep/acme", `{"spec": {"frontendHosts": null, "signIn": null}}`)
		Eventually(w.shown(ctx, "membershiprole/admin", conditionPath(v1alpha1.ConditionAccepted))).Should(HavePrefix("False/AssuranceUnreachable"), "passkeys need a host")
	})

	It("refuses a public suffix as the relying party, and keeps what was active", func(ctx context.Context) {
		w.apply(ctx, strings.ReplaceAll(strongYAML, "HOST", host))
		ready(ctx, "idep/acme")
		patch(ctx, "idep/acme", `{"spec": {"signIn": {"passkey": {"relyingPartyID": "example"}}}}`)
		Eventually(w.shown(ctx, "idep/acme", conditionPath(v1alpha1.ConditionAccepted))).Should(HavePrefix(`False/Invalid spec.signIn.passkey.relyingPartyID: "example" is a public suffix`))
		var deployment content.Deployment
		w.content(ctx, v1alpha1.KindIdentityDeployment, "acme", &deployment)
		Expect(deployment.Assurance.RelyingParty).To(Equal(host))
	})

	It("reports where passkeys do not work, and what to serve", func(ctx context.Context) {
		w.apply(ctx, strings.ReplaceAll(strongYAML, "HOST", host))
		ready(ctx, "idep/acme")
		passkeys := w.shown(ctx, "idep/acme", conditionPath(v1alpha1.ConditionPasskeysReady))
		patch(ctx, "idep/acme", `{"spec": {"allowedOrigins": ["https://shop.example"]}}`)
		Eventually(passkeys).Should(HavePrefix("False/RelatedOriginsElsewhere "))
		message := passkeys()
		Expect(message).To(ContainSubstring("https://" + host + "/.well-known/webauthn"))
		var list struct{ Origins []string }
		Expect(json.Unmarshal([]byte(message[strings.Index(message, "{"):]), &list)).To(Succeed())
		Expect(list.Origins).To(Equal([]string{"https://login." + host, "https://shop.example"}))
		ready(ctx, "idep/acme")

		patch(ctx, "idep/acme", fmt.Sprintf(`{"spec": {"frontendHosts": ["login.%s", %q]}}`, host, host))
		Eventually(passkeys).Should(HavePrefix("True/Usable "), "Cardea serves the list")
		patch(ctx, "idep/acme", `{"spec": {"allowedOrigins": ["https://a.example", "https://b.example", "https://c.example", "https://d.example", "https://e.example"]}}`)
		Eventually(passkeys).Should(HavePrefix("False/TooManyRelatedOrigins "))
		patch(ctx, "idep/acme", `{"spec": {"allowedOrigins": null, "frontendHosts": null, "signIn": {"passkey": {"relyingPartyID": null}}}}`)
		Eventually(passkeys).Should(And(HavePrefix("False/NoFrontendHost "), ContainSubstring("add a host to spec.frontendHosts")))
		ready(ctx, "idep/acme")
	})

	It("reports passkeys of a former relying party once, until the id is back", func(ctx context.Context) {
		w.apply(ctx, strings.ReplaceAll(strongYAML, "HOST", host))
		ready(ctx, "idep/acme")
		Expect(w.store.Engine().Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
			for n := range int64(3) {
				p := people.Passkey{ID: n + 1, User: 7, RelyingParty: host, Credential: []byte{byte(n)}, Handle: []byte{7}, PublicKey: []byte{1}, AAGUID: make([]byte, 16), CreatedAt: time.Now()}
				if err := tx.Factors().InsertPasskey(p); err != nil {
					return err
				}
			}
			return nil
		})).To(Succeed())
		changed := w.shown(ctx, "idep/acme", conditionPath(v1alpha1.ConditionRelyingPartyChanged))
		patch(ctx, "idep/acme", `{"spec": {"signIn": {"passkey": {"relyingPartyID": null}}}}`)
		Eventually(changed).Should(And(HavePrefix("True/OtherPasskeys 3 passkeys"), ContainSubstring("3 of "+host), ContainSubstring("login."+host+" now")))
		ready(ctx, "idep/acme")

		deployment := testkit.Deployment(w.namespace, "acme")
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		version := deployment.ResourceVersion
		Consistently(func() string {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
			return deployment.ResourceVersion
		}).Should(Equal(version), "it is reported once")
		patch(ctx, "idep/acme", fmt.Sprintf(`{"spec": {"signIn": {"passkey": {"relyingPartyID": %q}}}}`, host))
		Eventually(changed).Should(Equal("/ "))
	})
})
