package backend

import (
	"encoding/base64"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// viewFactors is the served form of a user's factors, which has no secrets and no codes.
func viewFactors(u *account.Unit, user people.User) (backendapi.SecondFactors, error) {
	out := backendapi.SecondFactors{
		TwoStep: user.TwoStep, Required: backendapi.SecondFactorsRequired(u.DeploymentRequires(user.CreatedAt, u.Now).String()),
		Totp: []backendapi.Authenticator{}, Sms: []backendapi.TextFactor{}, Passkeys: []backendapi.Passkey{},
	}
	f, err := u.FactorsOf(user.ID)
	if err != nil {
		return out, err
	}
	// The settings of the deployment make all authenticators usable, or none; likewise all texts.
	for _, a := range slices.Concat(f.Authenticators, f.UnusableAuthenticators) {
		view := backendapi.Authenticator{Id: ids.Format(a.ID), Name: a.Name, Usable: len(f.Authenticators) > 0, CreatedAt: a.CreatedAt}
		if !a.UsedAt.IsZero() {
			view.LastUsedAt = &a.UsedAt
		}
		out.Totp = append(out.Totp, view)
	}
	for _, p := range slices.Concat(f.Texts, f.UnusableTexts) {
		out.Sms = append(out.Sms, backendapi.TextFactor{PhoneNumberId: ids.Format(p.ID), PhoneNumber: p.Number, Usable: len(f.Texts) > 0, CreatedAt: p.SecondFactorAt})
	}
	passkeys, err := u.Factors().PasskeysOf(user.ID)
	if err != nil {
		return out, err
	}
	for _, p := range passkeys {
		out.Passkeys = append(out.Passkeys, viewPasskey(u.Tenant, p))
	}
	codes, err := u.Factors().RecoveryCodesOf(user.ID)
	if !codes.CreatedAt.IsZero() {
		out.RecoveryCodes = &backendapi.RecoveryCodesLeft{Left: codes.Left, CreatedAt: codes.CreatedAt}
	}
	return out, err
}

func viewPasskey(t *account.Tenant, p people.Passkey) backendapi.Passkey {
	settings, _ := t.Settings.Strong()
	view := backendapi.Passkey{
		Id: ids.Format(p.ID), Name: p.Name, CredentialId: base64.RawURLEncoding.EncodeToString(p.Credential),
		UserHandle: base64.RawURLEncoding.EncodeToString(p.Handle), RelyingPartyId: p.RelyingParty, Usable: account.PasskeyUsable(settings, p),
		UserVerified: p.Verified, SecondFactorOnly: p.SecondFactorOnly, BackedUp: p.BackedUp, Transports: append([]string{}, p.Transports...), CreatedAt: p.CreatedAt,
	}
	if p.BackupEligible >= 0 {
		view.BackupEligible = ptr.To(p.BackupEligible >= passkey.BackupEligible)
	}
	if !p.UsedAt.IsZero() {
		view.LastUsedAt = &p.UsedAt
	}
	return view
}

func viewProofs(proofs assurance.Proofs) []backendapi.Proof {
	out := []backendapi.Proof{}
	for _, p := range proofs {
		out = append(out, backendapi.Proof{Method: string(p.Method), ProvedAt: p.At})
	}
	return out
}
