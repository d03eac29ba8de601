package imports

import (
	"maps"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/store/people"
)

// knownFactors are the factors of the users in a batch, with those of its lines so far.
type knownFactors struct {
	// authenticators, passkeys and texts count the factors of users.
	authenticators, passkeys, texts map[int64]int
	// credentials holds the credential ids of passkeys of the relying party that are in the store or the batch.
	credentials map[string]bool
}

// factorRows are the factors that a batch writes.
type factorRows struct {
	authenticators []people.Authenticator
	passkeys       []people.Passkey
	// phones are the ids of numbers that become second factors, and twoStep the users whose two-step is turned on.
	phones  map[int64]bool
	twoStep map[int64]bool
}

// loadFactors reads the factors of the users of lines about factors. Unlike the rest of a batch it reads each of these
// users and credentials by itself: they are few beside the other lines.
func (b *batch) loadFactors(w *wanted) error {
	b.known.factors = knownFactors{authenticators: map[int64]int{}, passkeys: map[int64]int{}, texts: map[int64]int{}, credentials: map[string]bool{}}
	b.rows.factors = factorRows{phones: map[int64]bool{}, twoStep: map[int64]bool{}}
	settings, _ := b.Settings.Strong()
	for _, user := range slices.Sorted(slices.Values(b.rowsOf(people.ImportedUser, w.factorUsers))) {
		f, err := b.FactorsOf(user)
		if err != nil {
			return err
		}
		authenticators, err := b.Factors().AuthenticatorsOf(user)
		if err != nil {
			return err
		}
		passkeys, err := b.Factors().PasskeysOf(user)
		if err != nil {
			return err
		}
		b.known.factors.authenticators[user], b.known.factors.passkeys[user], b.known.factors.texts[user] = len(authenticators), len(passkeys), len(f.Texts)
	}
	for _, credential := range slices.Sorted(maps.Keys(w.credentials)) {
		_, taken, err := b.Factors().PasskeyByCredential(settings.RelyingParty, []byte(credential))
		if err != nil {
			return err
		}
		if taken {
			b.known.factors.credentials[credential] = true
		}
	}
	return nil
}

// takesFactors refuses a line about a factor while no user may enroll.
func (b *batch) takesFactors(line *Line) bool {
	if _, open := b.Settings.Strong(); !open {
		line.fault("type", "is about a second factor, which the deployment does not take yet: upgrade its operator")
		return false
	}
	return true
}

func (b *batch) evaluateTOTP(line *Line, t *TOTP, id int64) {
	user, ok := b.user(line)
	switch {
	case !ok || !b.takesFactors(line):
		return
	case b.Keyring.Empty():
		line.fault("secret", "cannot be sealed: the server has no root key")
		return
	case b.known.factors.authenticators[user] >= factors.MaxAuthenticators:
		line.fault("user", "has the maximum number of authenticator apps already")
		return
	}
	b.known.factors.authenticators[user]++
	b.rows.factors.twoStep[user] = true
	b.rows.factors.authenticators = append(b.rows.factors.authenticators, factors.Imported(b.Unit, people.Authenticator{
		ID: id, User: user, Name: t.Name, Algorithm: string(t.Parameters.Algorithm), Digits: t.Parameters.Digits, Period: t.Parameters.Period,
		CreatedAt: b.at(line), ConfirmedAt: b.Now,
	}, t.Secret))
}

func (b *batch) evaluatePasskey(line *Line, p *Passkey, id int64) {
	user, ok := b.user(line)
	settings, _ := b.Settings.Strong()
	switch {
	case !ok || !b.takesFactors(line):
		return
	case p.RelyingParty != settings.RelyingParty:
		line.fault("rp_id", "is not the relying party of the deployment, so browsers would never offer the passkey here")
		return
	case b.known.factors.credentials[string(p.Credential)]:
		line.fault("credential_id", "is that of an existing passkey")
		return
	case b.known.factors.passkeys[user] >= factors.MaxPasskeys:
		line.fault("user", "has the maximum number of passkeys already")
		return
	}
	b.known.factors.passkeys[user]++
	b.known.factors.credentials[string(p.Credential)] = true
	row := p.Passkey
	row.ID, row.User, row.CreatedAt = id, user, b.at(line)
	if row.Name == "" {
		row.Name = "Passkey"
	}
	b.rows.factors.passkeys = append(b.rows.factors.passkeys, row)
}

// textFactor makes an imported number a second factor. It refuses the line if the account has the most already.
func (b *batch) textFactor(line *Line, user, id int64) bool {
	if !b.takesFactors(line) {
		return false
	}
	if b.known.factors.texts[user] >= factors.MaxTexts {
		line.fault("second_factor", "is one more than the maximum number of numbers that are second factors")
		return false
	}
	b.known.factors.texts[user]++
	b.rows.factors.phones[id], b.rows.factors.twoStep[user] = true, true
	return true
}

// writeFactors writes the factors after the users and numbers that they belong to.
func (b *batch) writeFactors() error {
	for _, a := range b.rows.factors.authenticators {
		if err := b.Factors().InsertAuthenticator(a); err != nil {
			return err
		}
	}
	for _, p := range b.rows.factors.passkeys {
		if err := b.Factors().InsertPasskey(p); err != nil {
			return err
		}
	}
	for _, phone := range slices.Sorted(maps.Keys(b.rows.factors.phones)) {
		if err := b.Factors().SetSecondFactorPhone(phone, b.Now); err != nil {
			return err
		}
	}
	for _, user := range slices.Sorted(maps.Keys(b.rows.factors.twoStep)) {
		if err := b.Factors().SetTwoStep(user, true); err != nil {
			return err
		}
	}
	return nil
}
