package assurance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Method is a way to prove one's identity.
type Method string

// The methods of proofs.
const (
	Password     Method = "password"
	EmailOTP     Method = "email_otp"
	TOTP         Method = "totp"
	SMS          Method = "sms"
	RecoveryCode Method = "recovery_code"
	// SSO is the answer of the identity provider of a connection.
	SSO Method = "sso"
	// SSOMultiFactor is such an answer in which the provider states more than one factor, by a connection that declares
	// which values mean that.
	SSOMultiFactor Method = "sso_mfa"
	// SSOOrganization accompanies SSO if the provider of an organization states more than one factor. It meets what that
	// organization itself requires, and counts nowhere else.
	SSOOrganization Method = "sso_organization"
	// Passkey is a passkey that tested the user's presence only.
	Passkey Method = "passkey"
	// PasskeyUV is a passkey that verified the user, by a PIN or a biometric check.
	PasskeyUV Method = "passkey_uv"
)

// methods are all methods, in the order in which proofs are listed.
var methods = []Method{Password, EmailOTP, TOTP, SMS, RecoveryCode, SSO, SSOMultiFactor, SSOOrganization, Passkey, PasskeyUV}

// Proof is a method that a user has shown, with its time in microseconds.
type Proof struct {
	Method Method
	At     time.Time
}

// Proofs are the proofs of a sign-in: the newest of each method, in the order of the constants.
type Proofs []Proof

// With returns the proofs with one more. It replaces an older proof of the same method.
func (p Proofs) With(method Method, at time.Time) Proofs {
	out := make(Proofs, 0, len(p)+1)
	for _, m := range methods {
		switch old, found := p.find(m); {
		case m == method && (!found || at.After(old.At)):
			out = append(out, Proof{m, at})
		case found:
			out = append(out, old)
		}
	}
	return out
}

func (p Proofs) find(method Method) (Proof, bool) {
	at := slices.IndexFunc(p, func(proof Proof) bool { return proof.Method == method })
	if at < 0 {
		return Proof{}, false
	}
	return p[at], true
}

// Has reports whether one of some methods was shown.
func (p Proofs) Has(any ...Method) bool { return !p.Newest(any...).IsZero() }

// Newest returns when one of some methods was last shown: of any method if none is named. It is zero if none of them
// was shown.
func (p Proofs) Newest(of ...Method) (at time.Time) {
	for _, proof := range p {
		if (len(of) == 0 || slices.Contains(of, proof.Method)) && proof.At.After(at) {
			at = proof.At
		}
	}
	return at
}

// first are the methods that can begin a sign-in, and second those that can complete one.
var (
	first  = []Method{Password, EmailOTP, SSO}
	second = []Method{TOTP, SMS, RecoveryCode, Passkey, PasskeyUV}
)

// HasFactor reports whether a second factor of the account itself was shown, not one that an identity provider states.
func (p Proofs) HasFactor() bool { return p.Has(second...) }

// Level returns the level that the proofs reach together.
func (p Proofs) Level() Level {
	switch {
	case p.Has(PasskeyUV), p.Has(Passkey) && p.Has(Password):
		return PhishingResistant
	case p.Has(first...) && p.Has(second...), p.Has(SSOMultiFactor):
		return TwoFactors
	case len(p) > 0:
		return OneFactor
	}
	return None
}

// ProvenAt returns when a level was last proven: the time of the newest proof on which it stands. It is zero if the
// proofs do not reach the level.
func (p Proofs) ProvenAt(level Level) time.Time {
	switch {
	case p.Level() < level:
		return time.Time{}
	case level < PhishingResistant:
		return p.Newest()
	case p.Has(Passkey) && p.Has(Password):
		return p.Newest(PasskeyUV, Passkey, Password)
	}
	return p.Newest(PasskeyUV)
}

// AMROrganization is the method reference of SSOOrganization, which no standard names.
const AMROrganization = "fed_mfa"

// AMR returns the authentication method references of the proofs, sorted and without repetitions (RFC 8176; pop is of
// OpenID's EAP ACR Values, and fed, for the answer of another provider, is the value that Microsoft Entra uses).
func (p Proofs) AMR() []string {
	references := map[Method][]string{
		Password: {"pwd"}, EmailOTP: {"otp"}, TOTP: {"otp"}, RecoveryCode: {"otp"}, SMS: {"sms"}, SSO: {"fed"}, SSOMultiFactor: {"fed"},
		SSOOrganization: {AMROrganization}, Passkey: {"pop", "user"}, PasskeyUV: {"pop", "user"},
	}
	var amr []string
	for _, proof := range p {
		amr = append(amr, references[proof.Method]...)
	}
	if p.Level() >= TwoFactors {
		amr = append(amr, "mfa")
	}
	slices.Sort(amr)
	return slices.Compact(amr)
}

// State returns the authentication context class reference that the proofs support, and the time of the newest proof
// that it stands on. It is the first asked value whose level was proven at a time or later. Without such a value it is
// the highest level that was.
func (p Proofs) State(asked []string, since time.Time) (acr string, at time.Time) {
	for _, value := range asked {
		level, _ := ParseACR(value)
		if at := p.ProvenAt(level); level != None && !at.IsZero() && !at.Before(since) {
			return value, at
		}
	}
	for level := p.Level(); level > OneFactor; level-- {
		if at := p.ProvenAt(level); !at.Before(since) {
			return level.ACR(), at
		}
	}
	return OneFactor.ACR(), p.Newest()
}

// Without returns the proofs of other methods.
func (p Proofs) Without(methods ...Method) (rest Proofs) {
	for _, proof := range p {
		if !slices.Contains(methods, proof.Method) {
			rest = append(rest, proof)
		}
	}
	return rest
}

// Since returns the proofs that were shown at a time or later.
func (p Proofs) Since(at time.Time) (recent Proofs) {
	for _, proof := range p {
		if !proof.At.Before(at) {
			recent = append(recent, proof)
		}
	}
	return recent
}

// String returns the proofs as the store keeps them: "password:<microseconds> totp:<microseconds>".
func (p Proofs) String() string {
	parts := make([]string, len(p))
	for i, proof := range p {
		parts[i] = string(proof.Method) + ":" + strconv.FormatInt(proof.At.UnixMicro(), 10)
	}
	return strings.Join(parts, " ")
}

// ParseProofs reads the form that String writes. It skips methods that it does not know, which a later release may
// have written.
func ParseProofs(stored string) (Proofs, error) {
	if stored == "" {
		return nil, nil
	}
	var out Proofs
	for part := range strings.SplitSeq(stored, " ") {
		name, at, _ := strings.Cut(part, ":")
		micros, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("stored proof %q is not <method>:<microseconds>", part)
		}
		if slices.Contains(methods, Method(name)) {
			out = append(out, Proof{Method(name), time.UnixMicro(micros).UTC()})
		}
	}
	return out, nil
}

// Raise returns the level that the proofs would reach with further methods.
func (p Proofs) Raise(by ...Method) Level {
	raised := p
	for _, method := range by {
		raised = raised.With(method, time.UnixMicro(1))
	}
	return raised.Level()
}
