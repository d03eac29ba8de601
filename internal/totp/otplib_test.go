package totp

import (
	"bytes"
	"encoding/json"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// setUp is a URI and its code at a time in seconds, as test/passkeys/otplib.js reads it.
type setUp struct {
	URI  string `json:"uri"`
	Time int64  `json:"time"`
	Code string `json:"code"`
	// account, parameters and secret are what the URI was made of.
	account    string
	parameters Parameters
	secret     []byte
}

// otplibReading is what otplib read from a URI, and what it made for the same account.
type otplibReading struct {
	Type, Label, Issuer, Secret, Algorithm string
	Digits, Period                         int
	Accepted                               bool
	Code                                   string
	OwnURI, OwnSecret, OwnCode             string
}

// TestOtplibAgrees lets otplib read the URIs of this package, and compares codes both ways.
func TestOtplibAgrees(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "test", "passkeys")
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "otplib")); err != nil {
		t.Skip("otplib is not installed (make test-passkeys)")
	}
	const runs, issuer = 500, "Café & Söhne"
	random := mathrand.New(mathrand.NewPCG(3, 4))
	set := make([]setUp, runs)
	for i := range set {
		s := setUp{account: "ada+x%20ä@acme.example", secret: make([]byte, MinSecretBytes+random.IntN(MaxSecretBytes-MinSecretBytes+1)), Time: random.Int64N(1 << 32)}
		s.parameters = Parameters{[]Algorithm{SHA1, SHA256, SHA512}[random.IntN(3)], 6 + 2*random.IntN(2), time.Duration(1+random.IntN(2)) * 30 * time.Second}
		for b := range s.secret {
			s.secret[b] = byte(random.Uint32())
		}
		s.URI, s.Code = URI(issuer, s.account, s.secret, s.parameters), Code(s.parameters, s.secret, s.parameters.Step(time.Unix(s.Time, 0)))
		set[i] = s
	}
	input, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "node", "otplib.js")
	command.Dir, command.Stdin, command.Stderr = folder, bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var read []otplibReading
	if err := json.Unmarshal(output, &read); err != nil || len(read) != runs {
		t.Fatalf("%d readings, %v", len(read), err)
	}
	for i, got := range read {
		s := set[i]
		if got.Type != "totp" || got.Label != issuer+":"+s.account || got.Issuer != issuer || got.Secret != FormatSecret(s.secret) ||
			!strings.EqualFold(got.Algorithm, string(s.parameters.Algorithm)) || got.Digits != s.parameters.Digits ||
			time.Duration(got.Period)*time.Second != s.parameters.Period {
			t.Fatalf("otplib reads %s as %+v", s.URI, got)
		}
		if !got.Accepted || got.Code != s.Code {
			t.Fatalf("%s at %d: code %s, otplib has %s and accepts it: %v", s.URI, s.Time, s.Code, got.Code, got.Accepted)
		}
		got.acceptedHere(t, s)
	}
}

// acceptedHere checks that this package reads the secret that otplib made, and accepts its code.
func (got otplibReading) acceptedHere(t *testing.T, s setUp) {
	t.Helper()
	secret, err := ParseSecret(got.OwnSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(s.Time, 0)
	if _, result := Match(s.parameters, secret, got.OwnCode, now, 0); result != Right {
		t.Fatalf("a code of otplib at %d: result %d", s.Time, result)
	}
	if _, result := Match(s.parameters, s.secret, got.Code, now, 0); result != Right {
		t.Fatalf("otplib's code of %s at %d: result %d", s.URI, s.Time, result)
	}
	if want := "otpauth://totp/Caf%C3%A9%20%26%20S%C3%B6hne:ada%2Bx%2520%C3%A4%40acme.example?secret=" + got.OwnSecret; !strings.HasPrefix(got.OwnURI, want) {
		t.Fatalf("otplib's URI is %s", got.OwnURI)
	}
}
