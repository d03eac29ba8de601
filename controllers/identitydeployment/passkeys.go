package identitydeployment

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/relyingparty"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/people"
)

const relyingPartyField = "spec.signIn.passkey.relyingPartyID"

// checkRelyingParty refuses a declared relying party that browsers would refuse. Admission compares it with the hosts.
func checkRelyingParty(d *v1alpha1.IdentityDeployment) error {
	if d.Spec.SignIn == nil || d.Spec.SignIn.Passkey == nil || d.Spec.SignIn.Passkey.RelyingPartyID == nil {
		return nil
	}
	if err := relyingparty.Validate(string(*d.Spec.SignIn.Passkey.RelyingPartyID)); err != nil {
		return engine.Terminal(v1alpha1.ReasonInvalid, "%s: %v", relyingPartyField, err)
	}
	return nil
}

// passkeyStatus is nil if no passkey can be added.
func passkeyStatus(p translation.Passkeys) *v1alpha1.PasskeyStatus {
	if !p.Enabled || p.RelyingParty == "" {
		return nil
	}
	return &v1alpha1.PasskeyStatus{RelyingPartyID: p.RelyingParty, Origins: p.Origins}
}

// passkeysReady returns the condition PasskeysReady. There is none for a deployment without end users that declares no
// passkeys itself, and none while they are disabled.
func passkeysReady(p translation.Passkeys) []metav1.Condition {
	if !p.Enabled || p.RelyingParty == "" && !p.Declared {
		return nil
	}
	c := metav1.Condition{Type: v1alpha1.ConditionPasskeysReady, Status: metav1.ConditionFalse}
	related, unusable := relyingparty.Related(p.RelyingParty, p.Origins)
	labels := relyingparty.Labels(p.Origins)
	switch {
	case p.RelyingParty == "":
		c.Reason = v1alpha1.ReasonNoFrontendHost
		c.Message = "passkeys belong to a host, and the deployment has none with a domain name: add a host to spec.frontendHosts, or remove spec.signIn.passkey"
	case len(related) > 0 && len(labels) > relyingparty.MaxLabels:
		c.Reason = v1alpha1.ReasonTooManyRelatedOrigins
		c.Message = fmt.Sprintf("spec.frontendHosts and spec.allowedOrigins have %d registrable labels (%s), and browsers may ignore all labels but the first %d: "+
			"use passkeys on fewer domains, or move these origins to other deployments", len(labels), strings.Join(labels, ", "), relyingparty.MaxLabels)
	case len(related) > 0 && !p.Served:
		c.Reason = v1alpha1.ReasonRelatedOriginsElsewhere
		c.Message = fmt.Sprintf("pages outside %s, such as %s, can use passkeys only if https://%s%s returns the following JSON as application/json, and that host is not in spec.frontendHosts: "+
			"serve the JSON there, or add the host: %s", p.RelyingParty, related[0], p.RelyingParty, relyingparty.Path, relyingparty.List(p.Origins))
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonUsable
		c.Message = fmt.Sprintf("passkeys belong to %s, and can be used from all origins in status.passkeys", p.RelyingParty)
		if len(unusable) > 0 {
			c.Message += fmt.Sprintf(" except %s, which browsers refuse because the host is outside %s and has no registrable domain",
				strings.Join(unusable, ", "), p.RelyingParty)
		}
	}
	return []metav1.Condition{c}
}

// otherPasskeys finds passkeys of other relying parties in the store.
func (p People) otherPasskeys(ctx context.Context, d *v1alpha1.IdentityDeployment, relyingParty string) ([]metav1.Condition, error) {
	others, err := p.Store.OtherPasskeys(ctx, d.Namespace+"/"+d.Name, relyingParty)
	if err != nil {
		return nil, engine.StoreError(err)
	}
	return relyingPartyChanged(relyingParty, others), nil
}

// maxNamed bounds how many relying parties a message names.
const maxNamed = 5

// relyingPartyChanged returns the condition RelyingPartyChanged, none without passkeys of other relying parties.
func relyingPartyChanged(relyingParty string, others []people.RelyingPartyCount) []metav1.Condition {
	if len(others) == 0 {
		return nil
	}
	var named []string
	total := int64(0)
	for i, other := range others {
		if total += other.Passkeys; i < maxNamed {
			named = append(named, fmt.Sprintf("%d of %s", other.Passkeys, other.RelyingParty))
		}
	}
	if more := len(others) - maxNamed; more > 0 {
		named = append(named, fmt.Sprintf("those of %d more", more))
	}
	now := "the deployment has no relying party now"
	if relyingParty != "" {
		now = "the relying party is " + relyingParty + " now"
	}
	return []metav1.Condition{{
		Type: v1alpha1.ConditionRelyingPartyChanged, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOtherPasskeys,
		Message: fmt.Sprintf("%d passkeys in the store belong to other relying parties and cannot be used (%s): %s. "+
			"To use them again, set %s to the previous value; otherwise their users add new passkeys", total, strings.Join(named, ", "), now, relyingPartyField),
	}}
}
