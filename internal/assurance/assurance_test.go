package assurance

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// TestLevelOfEverySubset compares the level and the claims of every subset of methods with the table of levels.
func TestLevelOfEverySubset(t *testing.T) {
	for set := range 1 << len(methods) {
		var proofs Proofs
		has := map[Method]bool{}
		for i, method := range methods {
			if set&(1<<i) != 0 {
				proofs, has[method] = proofs.With(method, now), true
			}
		}
		want := None
		if len(has) > 0 {
			want = OneFactor
		}
		if has[SSOMultiFactor] || (has[Password] || has[EmailOTP] || has[SSO]) && (has[TOTP] || has[SMS] || has[RecoveryCode] || has[Passkey]) {
			want = TwoFactors
		}
		if has[PasskeyUV] || has[Passkey] && has[Password] {
			want = PhishingResistant
		}
		if got := proofs.Level(); got != want {
			t.Errorf("%s: level %s, want %s", proofs, got, want)
		}
		amr := map[string]bool{
			"pwd": has[Password], "otp": has[EmailOTP] || has[TOTP] || has[RecoveryCode], "sms": has[SMS], "pop": has[Passkey] || has[PasskeyUV],
			"user": has[Passkey] || has[PasskeyUV], "fed": has[SSO] || has[SSOMultiFactor], "mfa": want >= TwoFactors, AMROrganization: has[SSOOrganization],
		}
		for reference, stated := range amr {
			if slices.Contains(proofs.AMR(), reference) != stated {
				t.Errorf("%s: amr %v, want %s stated: %t", proofs, proofs.AMR(), reference, stated)
			}
		}
		if read, err := ParseProofs(proofs.String()); err != nil || !slices.Equal(read, proofs) {
			t.Errorf("%s is read as %s, error %v", proofs, read, err)
		}
		for level := OneFactor; level <= PhishingResistant; level++ {
			if reached := !proofs.ProvenAt(level).IsZero(); reached != (level <= want) {
				t.Errorf("%s: level %s is proven: %t", proofs, level, reached)
			}
		}
	}
}

func TestNewestProofOfEachMethodIsKept(t *testing.T) {
	p := Proofs{}.With(TOTP, now).With(Password, now.Add(time.Second)).With(TOTP, now.Add(time.Minute)).With(Password, now)
	if want := (Proofs{{Password, now.Add(time.Second)}, {TOTP, now.Add(time.Minute)}}); !slices.Equal(p, want) {
		t.Errorf("got %s, want %s", p, want)
	}
}

func TestProvenAt(t *testing.T) {
	later := now.Add(time.Hour)
	for name, c := range map[string]struct {
		proofs Proofs
		level  Level
		want   time.Time
	}{
		"a password renews the level of two factors":       {Proofs{}.With(TOTP, now).With(Password, later), TwoFactors, later},
		"a password does not renew a verified passkey":     {Proofs{}.With(PasskeyUV, now).With(Password, later), PhishingResistant, now},
		"a code does not renew a verified passkey":         {Proofs{}.With(PasskeyUV, now).With(TOTP, later), PhishingResistant, now},
		"passkey and password stand together":              {Proofs{}.With(Passkey, now).With(Password, later), PhishingResistant, later},
		"any proof renews one factor":                      {Proofs{}.With(PasskeyUV, now).With(TOTP, later), OneFactor, later},
		"a level that is not reached was never proven":     {Proofs{}.With(Password, now), TwoFactors, time.Time{}},
		"the level of no proof was never proven":           {nil, OneFactor, time.Time{}},
		"an emailed code does not renew a user's presence": {Proofs{}.With(Passkey, now).With(EmailOTP, later), PhishingResistant, time.Time{}},
	} {
		if got := c.proofs.ProvenAt(c.level); !got.Equal(c.want) {
			t.Errorf("%s: proven at %v, want %v", name, got, c.want)
		}
	}
}

func TestParseProofs(t *testing.T) {
	if p, err := ParseProofs("retina:5 totp:7"); err != nil || !slices.Equal(p, Proofs{{TOTP, time.UnixMicro(7).UTC()}}) {
		t.Errorf("an unknown method is read as %s, error %v", p, err)
	}
	for _, stored := range []string{"totp", "totp:", "totp:x", " ", "totp:1  sms:2"} {
		if _, err := ParseProofs(stored); err == nil {
			t.Errorf("%q is accepted", stored)
		}
	}
}

// TestRequiredIsTheLargestInForce compares Require with a definition over all moments.
func TestRequiredIsTheLargestInForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(label string) time.Time {
			return now.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, label)) * time.Second)
		}
		var demands []Demand
		for range rapid.IntRange(0, 5).Draw(t, "demands") {
			d := Demand{Source(rapid.SampledFrom([]string{"account", "deployment", "role"}).Draw(t, "by")), Requirement{Level: Level(rapid.IntRange(0, 3).Draw(t, "level"))}}
			if rapid.Bool().Draw(t, "dated") {
				d.From = at("from")
			}
			demands = append(demands, d)
		}
		level := func(at time.Time) Level {
			most := OneFactor
			for _, d := range demands {
				if d.From.IsZero() || !at.Before(d.From) {
					most = max(most, d.Level)
				}
			}
			return most
		}
		got := Require(now, demands...)
		if got.Level != level(now) {
			t.Fatalf("required %s, want %s", got.Level, level(now))
		}
		if (got.By == ByNobody) != (got.Level == OneFactor) {
			t.Fatalf("required %s by %q", got.Level, got.By)
		}
		var next time.Time
		for second := range 4 {
			if at := now.Add(time.Duration(second) * time.Second); next.IsZero() && level(at) > level(now) {
				next = at
			}
		}
		if !got.Next.Equal(next) {
			t.Fatalf("more is required from %v, want %v", got.Next, next)
		}
	})
}

func TestRequirementOfNewAccountsIsDelayed(t *testing.T) {
	from := now.Add(-time.Hour)
	for name, c := range map[string]struct {
		created time.Time
		grace   time.Duration
		want    time.Time
	}{
		"an old account has no grace period":           {now.Add(-240 * time.Hour), 24 * time.Hour, from},
		"a new account has its grace period":           {now.Add(-time.Minute), 24 * time.Hour, now.Add(24*time.Hour - time.Minute)},
		"without a grace period the date is unchanged": {now, 0, from},
	} {
		if got := (Requirement{TwoFactors, from}).Delayed(c.created, c.grace); !got.From.Equal(c.want) {
			t.Errorf("%s: in force from %v, want %v", name, got.From, c.want)
		}
	}
	r := Requirement{TwoFactors, now}
	if r.InForce(now.Add(-time.Microsecond)) || !r.InForce(now) {
		t.Error("a requirement must be in force exactly from its date on")
	}
}

func TestNames(t *testing.T) {
	for level := OneFactor; level <= PhishingResistant; level++ {
		if got, ok := ParseLevel(level.String()); !ok || got != level {
			t.Errorf("%s is read as %s", level, got)
		}
		if got, ok := ParseDeclared(level.Declared()); !ok || got != level {
			t.Errorf("%s is read as %s", level.Declared(), got)
		}
		if got, ok := ParseACR(level.ACR()); !ok || got != level {
			t.Errorf("%s is read as %s", level.ACR(), got)
		}
	}
	if got, ok := ParseACR(acrMultiFactor); !ok || got != TwoFactors {
		t.Errorf("%s is read as %s", acrMultiFactor, got)
	}
	for _, unknown := range []string{"", "none", "0", "phrh", "3"} {
		if _, ok := ParseACR(unknown); ok {
			t.Errorf("the acr %q is accepted", unknown)
		}
		if _, ok := ParseLevel(unknown); ok {
			t.Errorf("the level %q is accepted", unknown)
		}
	}
}
