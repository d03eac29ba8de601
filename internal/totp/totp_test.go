package totp

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	peer "github.com/pquerna/otp/totp"
	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/internal/seal"
)

func TestCodesOfTheStandard(t *testing.T) {
	t.Parallel()
	// RFC 6238 appendix B. Its text names one secret, but its reference implementation lengthens the secret to the
	// length of the hash.
	secrets := map[Algorithm][]byte{
		SHA1: []byte("12345678901234567890"), SHA256: []byte("12345678901234567890123456789012"),
		SHA512: []byte("1234567890123456789012345678901234567890123456789012345678901234"),
	}
	for _, tt := range []struct {
		seconds int64
		codes   map[Algorithm]string
	}{
		{59, map[Algorithm]string{SHA1: "94287082", SHA256: "46119246", SHA512: "90693936"}},
		{1111111109, map[Algorithm]string{SHA1: "07081804", SHA256: "68084774", SHA512: "25091201"}},
		{1111111111, map[Algorithm]string{SHA1: "14050471", SHA256: "67062674", SHA512: "99943326"}},
		{1234567890, map[Algorithm]string{SHA1: "89005924", SHA256: "91819424", SHA512: "93441116"}},
		{2000000000, map[Algorithm]string{SHA1: "69279037", SHA256: "90698825", SHA512: "38618901"}},
		{20000000000, map[Algorithm]string{SHA1: "65353130", SHA256: "77737706", SHA512: "47863826"}},
	} {
		for algorithm, want := range tt.codes {
			p := Parameters{algorithm, 8, 30 * time.Second}
			if got := Code(p, secrets[algorithm], p.Step(time.Unix(tt.seconds, 0))); got != want {
				t.Errorf("%s at %d: %s, want %s", algorithm, tt.seconds, got, want)
			}
			p.Digits = 6
			if got := Code(p, secrets[algorithm], p.Step(time.Unix(tt.seconds, 0))); got != want[2:] {
				t.Errorf("%s at %d, six digits: %s, want %s", algorithm, tt.seconds, got, want[2:])
			}
		}
	}
}

func TestStepsBeginAtFullPeriods(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		nanoseconds int64
		period      time.Duration
		want        int64
	}{
		{0, 30 * time.Second, 0}, {29_999_999_999, 30 * time.Second, 0}, {30_000_000_000, 30 * time.Second, 1}, {59_999_999_999, 60 * time.Second, 0},
		{-1, 30 * time.Second, -1}, {-30_000_000_000, 30 * time.Second, -1}, {-30_000_000_001, 30 * time.Second, -2},
	} {
		if got := (Parameters{Period: tt.period}).Step(time.Unix(0, tt.nanoseconds)); got != tt.want {
			t.Errorf("step of %d ns, period %s: %d, want %d", tt.nanoseconds, tt.period, got, tt.want)
		}
	}
}

func drawParameters(t *rapid.T) Parameters {
	return Parameters{
		rapid.SampledFrom([]Algorithm{SHA1, SHA256, SHA512}).Draw(t, "algorithm"),
		rapid.SampledFrom([]int{6, 8}).Draw(t, "digits"),
		rapid.SampledFrom([]time.Duration{30 * time.Second, 60 * time.Second}).Draw(t, "period"),
	}
}

func TestCodesAgreeWithPquernaOTP(t *testing.T) {
	t.Parallel()
	algorithms := map[Algorithm]otp.Algorithm{SHA1: otp.AlgorithmSHA1, SHA256: otp.AlgorithmSHA256, SHA512: otp.AlgorithmSHA512}
	rapid.Check(t, func(t *rapid.T) {
		p := drawParameters(t)
		secret := rapid.SliceOfN(rapid.Byte(), MinSecretBytes, MaxSecretBytes).Draw(t, "secret")
		now := time.Unix(rapid.Int64Range(0, 1<<36).Draw(t, "now"), 0)
		want, err := peer.GenerateCodeCustom(FormatSecret(secret), now, peer.ValidateOpts{
			Period: uint(p.Period / time.Second), Digits: otp.Digits(p.Digits), Algorithm: algorithms[p.Algorithm],
		})
		if got := Code(p, secret, p.Step(now)); err != nil || got != want {
			t.Fatalf("%s, want %s, %v", got, want, err)
		}
	})
}

// TestCodesAgreeWithOathtool compares 10,000 codes: 50 consecutive steps for each of 200 random secrets, parameters and
// times.
func TestCodesAgreeWithOathtool(t *testing.T) {
	t.Parallel()
	tool, err := exec.LookPath("oathtool")
	if err != nil {
		t.Skip("oathtool is not installed (Debian package oathtool)")
	}
	const runs, steps = 200, 50
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for range runs {
		p := Parameters{[]Algorithm{SHA1, SHA256, SHA512}[random.IntN(3)], 6 + 2*random.IntN(2), time.Duration(1+random.IntN(2)) * 30 * time.Second}
		secret := make([]byte, MinSecretBytes+random.IntN(MaxSecretBytes-MinSecretBytes+1))
		for i := range secret {
			secret[i] = byte(random.Uint32())
		}
		now := time.Unix(random.Int64N(1<<32), 0).UTC()
		command := exec.CommandContext(t.Context(), tool, "--totp="+string(p.Algorithm), "-d", fmt.Sprint(p.Digits), "-s", p.Period.String(),
			"-w", fmt.Sprint(steps-1), "-N", now.Format("2006-01-02 15:04:05 UTC"), "-")
		command.Stdin = strings.NewReader(hex.EncodeToString(secret) + "\n")
		output, err := command.Output()
		want := strings.Fields(string(output))
		if err != nil || len(want) != steps {
			t.Fatalf("%v: %d codes, %v", command.Args, len(want), err)
		}
		for i, code := range want {
			if got := Code(p, secret, p.Step(now)+int64(i)); got != code {
				t.Fatalf("%+v, secret %x, %s and %d steps: %s, want %s", p, secret, now, i, got, code)
			}
		}
	}
}

func TestMatchAcceptsOneStepEitherWayOnce(t *testing.T) {
	t.Parallel()
	p, secret := Default(), []byte("12345678901234567890")
	now := time.Unix(1_800_000_000, 0)
	current := p.Step(now)
	for name, tt := range map[string]struct {
		typed string
		last  int64
		step  int64
		want  Result
	}{
		"current":                               {Code(p, secret, current), 0, current, Right},
		"one before":                            {Code(p, secret, current-1), 0, current - 1, Right},
		"one after":                             {Code(p, secret, current+1), 0, current + 1, Right},
		"two before":                            {Code(p, secret, current-2), 0, 0, Wrong},
		"two after":                             {Code(p, secret, current+2), 0, 0, Wrong},
		"three after":                           {Code(p, secret, current+3), 0, 0, Wrong},
		"current, after the one before":         {Code(p, secret, current), current - 1, current, Right},
		"current, again":                        {Code(p, secret, current), current, current, Used},
		"one before, after current":             {Code(p, secret, current-1), current, current, Used},
		"current, after a clock was set back":   {Code(p, secret, current), current + 1000, current + 1000, Used},
		"one after, after a clock was set back": {Code(p, secret, current+1), current + 1, current + 1, Used},
		"wrong":                                 {"000000", current, current, Wrong},
		"too short":                             {Code(p, secret, current)[:5], 0, 0, Wrong},
		"too long":                              {Code(p, secret, current) + "0", 0, 0, Wrong},
		"none":                                  {"", 0, 0, Wrong},
	} {
		if step, got := Match(p, secret, tt.typed, now, tt.last); got != tt.want || step != tt.step {
			t.Errorf("%s: step %d, result %d; want %d, %d", name, step, got, tt.step, tt.want)
		}
	}
}

// sharing holds, for the secret 12345678901234567890, steps that have the same code as the step that is the given
// number later.
var sharing = map[int64]int64{1: 910_737, 2: 153_567, 3: 103_424, 4: 2_288_500}

// TestStepsThatShareACodeAreUsedOnce walks a clock over steps that share a code, and enters the code in each of them.
func TestStepsThatShareACodeAreUsedOnce(t *testing.T) {
	t.Parallel()
	p, secret := Default(), []byte("12345678901234567890")
	for later, first := range sharing {
		code := Code(p, secret, first)
		if Code(p, secret, first+later) != code {
			t.Fatalf("steps %d and %d have different codes", first, first+later)
		}
		for early := range int64(2) {
			last, accepted := int64(0), []int64{}
			for current := first - early; current <= first+later+1; current++ {
				step, result := Match(p, secret, code, time.Unix(current*30, 0), last)
				switch {
				case result == Right && step <= last, result != Right && step != last:
					t.Errorf("%d apart: result %d, step %d after %d", later, result, step, last)
				case result == Right:
					accepted = append(accepted, current-first)
				}
				last = step
			}
			// The highest step that is compared is three after the current one. Steps further apart are used at
			// different times, each once.
			want := 1
			if later+early > ahead {
				want = 2
			}
			if len(accepted) != want {
				t.Errorf("%d apart: accepted at steps %v after the first", later, accepted)
			}
		}
	}
}

func TestFreshCodeIsAcceptedAlthoughItsDoubleIsUsed(t *testing.T) {
	t.Parallel()
	p, secret := Default(), []byte("12345678901234567890")
	first := sharing[2]
	code, second := Code(p, secret, first), first+2
	// Step first+1 is used, so the first of the two is spent, but the second is not.
	for current := first + 1; current <= second+1; current++ {
		if step, result := Match(p, secret, code, time.Unix(current*30, 0), first+1); result != Right || step != second {
			t.Errorf("%d after: step %d, result %d; want %d, Right", current-first, step, result, second)
		}
	}
	// Entered for the first step, the code uses both.
	if step, result := Match(p, secret, code, time.Unix(first*30, 0), 0); result != Right || step != second {
		t.Errorf("step %d, result %d; want %d, Right", step, result, second)
	}
	if _, result := Match(p, secret, code, time.Unix(second*30, 0), second); result != Used {
		t.Errorf("result %d, want Used", result)
	}
}

// TestNoStepIsAcceptedTwice enters codes at times that go forth and back, and keeps the last step as a store does.
func TestNoStepIsAcceptedTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawParameters(t)
		secret := rapid.SliceOfN(rapid.Byte(), MinSecretBytes, MaxSecretBytes).Draw(t, "secret")
		base, last := int64(60_000_000), int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "tries") {
			current := base + rapid.Int64Range(-6, 6).Draw(t, "current")
			entered := base + rapid.Int64Range(-8, 8).Draw(t, "entered")
			step, result := Match(p, secret, Code(p, secret, entered), time.Unix(current*int64(p.Period/time.Second), 0), last)
			inWindow := entered >= current-1 && entered <= current+1
			switch {
			case result == Right && step <= last, result != Right && step != last:
				t.Fatalf("result %d, step %d after %d", result, step, last)
			case inWindow && entered > last && result != Right:
				t.Fatalf("a fresh code of step %d at %d after %d: %d", entered, current, last, result)
			case inWindow && result == Wrong:
				t.Fatalf("a right code of step %d at %d after %d is wrong", entered, current, last)
			}
			last = step
		}
	})
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]Parameters{
		"": Default(),
		"algorithm must be SHA1, SHA256 or SHA512": {"sha1", 6, 30 * time.Second},
		"digits must be 6 or 8":                    {SHA1, 7, 30 * time.Second},
		"period must be 30 or 60 seconds":          {SHA1, 8, 31 * time.Second},
	} {
		if err := p.Validate(); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}

// BenchmarkCompare compares a wrong code with two authenticators, and opens their sealed secrets, with six bare
// HMAC-SHA-1: as many as both windows have steps.
func BenchmarkCompare(b *testing.B) {
	file := filepath.Join(b.TempDir(), "key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{1}, 32), 0o600); err != nil {
		b.Fatal(err)
	}
	ring, err := seal.Load([]string{file})
	if err != nil {
		b.Fatal(err)
	}
	secret, now := make([]byte, SecretBytes), time.Unix(1_800_000_000, 0)
	if _, err := rand.Read(secret); err != nil {
		b.Fatal(err)
	}
	ids := []string{"7/1", "7/2"}
	sealed := []string{ring.Seal("totp", ids[0], secret), ring.Seal("totp", ids[1], secret)}
	b.Run("two authenticators", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i, id := range ids {
				secret, err := ring.Open("totp", id, sealed[i])
				if err != nil {
					b.Fatal(err)
				}
				if _, result := Match(Default(), secret, "x00000", now, 0); result != Wrong {
					b.Fatal(result)
				}
			}
		}
	})
	b.Run("six HMAC-SHA-1", func(b *testing.B) {
		b.ReportAllocs()
		message := big.NewInt(60_000_000).FillBytes(make([]byte, 8))
		for b.Loop() {
			for range 6 {
				mac := hmac.New(sha1.New, secret)
				mac.Write(message)
				mac.Sum(nil)
			}
		}
	})
}
