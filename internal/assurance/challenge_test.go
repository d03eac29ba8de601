package assurance

import (
	"testing"
	"time"
)

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		acr, maxAge string
		stated      string
		age         time.Duration
		met         bool
	}{
		{"", "", "", 0, true},
		{"1", "", "", 0, false},
		{"1", "", "1", time.Hour, true},
		{"2", "", "1", 0, false},
		{"2", "", "2", time.Hour, true},
		{"2", "", "phr", time.Hour, true},
		{"2", "", "gold", 0, false},
		{"phr", "", "2", 0, false},
		{"2", "", "http://schemas.openid.net/pape/policies/2007/06/multi-factor", 0, true},
		{"", "300", "1", 300 * time.Second, true},
		{"", "300", "1", 301 * time.Second, false},
		{"", "0", "phr", 0, true},
		{"", "300", "", 0, false},
	} {
		w, err := ParseWanted(c.acr, c.maxAge)
		if err != nil || w.Met(c.stated, now.Add(-c.age), now) != c.met {
			t.Errorf("%+v: error %v", c, err)
		}
	}
	for _, c := range [][2]string{{"3", ""}, {"two_factors", ""}, {"", "-1"}, {"", "31536001"}, {"", "5m"}} {
		if w, err := ParseWanted(c[0], c[1]); err == nil {
			t.Errorf("%v is read as %+v", c, w)
		}
	}
	w, _ := ParseWanted("2", "300")
	if got, want := w.Challenge(), `Bearer error="insufficient_user_authentication", error_description="`+InsufficientMessage+`", acr_values="2", max_age="300"`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestProofsStateTheFirstAskedValueThatHolds(t *testing.T) {
	later := now.Add(time.Hour)
	both := Proofs{}.With(Password, now).With(TOTP, now)
	strong := Proofs{}.With(PasskeyUV, now).With(Password, later)
	for name, c := range map[string]struct {
		proofs Proofs
		asked  []string
		since  time.Time
		acr    string
		at     time.Time
	}{
		"nothing asked":                 {both, nil, time.Time{}, "2", now},
		"a lower one first":             {both, []string{"1", "2"}, time.Time{}, "1", now},
		"a higher one first":            {both, []string{"phr", "2"}, time.Time{}, "2", now},
		"only a higher one":             {both, []string{"phr"}, time.Time{}, "2", now},
		"the passkey is older":          {strong, nil, time.Time{}, "phr", now},
		"the passkey is too old":        {strong, nil, later, "2", later},
		"the asked one is too old":      {strong, []string{"phr"}, later, "2", later},
		"a repeated and an unknown one": {both, []string{"gold", "2"}, time.Time{}, "2", now},
	} {
		if acr, at := c.proofs.State(c.asked, c.since); acr != c.acr || !at.Equal(c.at) {
			t.Errorf("%s: %s at %s", name, acr, at)
		}
	}
	if known, level := Requested([]string{"gold", "phr", "2", "phr"}); len(known) != 2 || known[0] != "phr" || level != TwoFactors {
		t.Errorf("%v, %s", known, level)
	}
	if known, level := Requested([]string{"gold"}); known != nil || level != None {
		t.Errorf("%v, %s", known, level)
	}
}
