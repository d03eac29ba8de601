package verification

import (
	"bytes"
	"crypto/rand"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/internal/seal"
)

func TestCodesAreUniform(t *testing.T) {
	const draws = 1_000_000
	counts := make([]int, codes)
	for range draws {
		code, err := New(rand.Reader)
		if err != nil || len(code) != digits {
			t.Fatalf("%q, %v", code, err)
		}
		n := 0
		for _, c := range []byte(code) {
			if c < '0' || c > '9' {
				t.Fatalf("%q", code)
			}
			n = n*10 + int(c-'0')
		}
		counts[n]++
	}
	// Pearson's chi-square over 1,000 bins of 1,000 codes: mean 999, standard deviation 44.7. A deviation of five
	// standard deviations has a probability of less than one in a million.
	for name, bin := range map[string]func(int) int{"leading digits": func(n int) int { return n / 1000 }, "trailing digits": func(n int) int { return n % 1000 }} {
		bins := make([]float64, 1000)
		for n, c := range counts {
			bins[bin(n)] += float64(c)
		}
		chi := 0.0
		for _, got := range bins {
			chi += (got - draws/1000.0) * (got - draws/1000.0) / (draws / 1000.0)
		}
		if math.Abs(chi-999) > 5*44.7 {
			t.Errorf("%s: chi-square %.0f, want 999 +- 224", name, chi)
		}
	}
}

func TestNewReachesFirstAndLastCodeAndRedrawsTheTail(t *testing.T) {
	for want, raw := range map[string][]byte{
		"000000": {0, 0, 0, 0},
		"999999": {0, 0x0f, 0x42, 0x3f},
		// Values from 4,294,000,000 would make the first 967,296 codes more likely: they are redrawn.
		"000007": {0xff, 0xf1, 0x3d, 0x80, 0, 0, 0, 7},
	} {
		if got, err := New(bytes.NewReader(raw)); err != nil || got != want {
			t.Errorf("New(% x) = %q, %v; want %q", raw, got, err, want)
		}
	}
	if _, err := New(bytes.NewReader(nil)); err == nil {
		t.Error("a code without randomness")
	}
}

func TestNormalize(t *testing.T) {
	for typed, want := range map[string]string{
		"123456": "123456", "000000": "000000", " 123456 ": "123456", "\t123456\n": "123456", "123 456": "123456", "123-456": "123456", "12 3456": "123456", "1-23456": "123456",
		"": "", "12345": "", "1234567": "", "12345a": "", "12 34 56": "", "123  456": "", "-123456": "", "123456-": "", "１２３４５６": "", "123–456": "", "+12345": "", "1e5": "", "123\n456": "", "12345６": "",
	} {
		got, ok := Normalize(typed)
		if got != want || ok != (want != "") {
			t.Errorf("Normalize(%q) = %q, %v; want %q", typed, got, ok, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		typed := rapid.String().Draw(t, "typed")
		code, ok := Normalize(typed)
		if !ok {
			return
		}
		if len(code) != 6 || strings.Trim(code, "0123456789") != "" {
			t.Fatalf("%q became %q", typed, code)
		}
		again, ok := Normalize(code)
		if !ok || again != code {
			t.Fatalf("%q is not stable", code)
		}
	})
}

func binder(t *testing.T, fills ...byte) *Binder {
	t.Helper()
	var files []string
	for _, fill := range fills {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, bytes.Repeat([]byte{fill}, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	ring, err := seal.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return NewBinder(ring)
}

func TestCodesAreBoundToTheirChallenge(t *testing.T) {
	b, rotated, other := binder(t, 1), binder(t, 2, 1), binder(t, 3)
	salt, mac, key, err := b.Bind(7, "012345", rand.Reader)
	if err != nil || len(salt) != 16 || len(mac) != 32 || key == "" {
		t.Fatalf("%d bytes of salt, %d of MAC, key %q, %v", len(salt), len(mac), key, err)
	}
	if !b.Matches(7, salt, mac, key, "012345") || !rotated.Matches(7, salt, mac, key, "012345") {
		t.Error("the code does not match")
	}
	for name, matches := range map[string]bool{
		"another challenge":  b.Matches(8, salt, mac, key, "012345"),
		"another code":       b.Matches(7, salt, mac, key, "012346"),
		"another salt":       b.Matches(7, make([]byte, 16), mac, key, "012345"),
		"another key":        other.Matches(7, salt, mac, key, "012345"),
		"an unknown key id":  b.Matches(7, salt, mac, "", "012345"),
		"no MAC":             b.Matches(7, salt, nil, key, "012345"),
		"the MAC of a decoy": b.Matches(7, salt, make([]byte, 32), key, "012345"),
	} {
		if matches {
			t.Errorf("%s matches", name)
		}
	}
	again, second, _, _ := b.Bind(7, "012345", rand.Reader)
	if bytes.Equal(salt, again) || bytes.Equal(mac, second) {
		t.Error("the salt is not random")
	}
	var none *seal.Keyring
	if _, _, _, err := NewBinder(none).Bind(7, "012345", rand.Reader); err != ErrNoKey {
		t.Errorf("without a root key: %v", err)
	}
}

// Matches compares codes only by their MACs, with hmac.Equal, so its time does not depend on the codes. TestBenchTiming
// measures the time in random order; a measurement here, on a shared machine, would prove nothing.
func TestCodesAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, declaration := range file.Decls {
		function, isFunction := declaration.(*ast.FuncDecl)
		if !isFunction || function.Name.Name != "Matches" {
			continue
		}
		ast.Inspect(function.Body, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.BinaryExpr:
				if left, named := n.X.(*ast.SelectorExpr); !named || left.Sel.Name != "ID" {
					t.Error("Matches compares more than the ids of keys")
				}
			case *ast.CallExpr:
				called, named := n.Fun.(*ast.SelectorExpr)
				if named && called.Sel.Name == "Equal" {
					of, _ := called.X.(*ast.Ident)
					found = of != nil && of.Name == "hmac"
				}
			}
			return true
		})
	}
	if !found {
		t.Error("Matches does not compare by hmac.Equal")
	}
}

func TestNextSend(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ago := func(seconds ...int) (sends []time.Time) {
		for _, s := range seconds {
			sends = append(sends, now.Add(-time.Duration(s)*time.Second))
		}
		return sends
	}
	const hour, day = 3600, 86400
	for name, tc := range map[string]struct {
		sends []time.Time
		want  int // seconds from now; at most 0: now
	}{
		"none":                        {nil, 0},
		"the first cool-down":         {ago(10), 20},
		"over":                        {ago(30), 0},
		"the second":                  {ago(100, 10), 50},
		"the third":                   {ago(200, 100, 10), 110},
		"the fourth equals the third": {ago(300, 200, 100, 10), 110},
		"five an hour":                {ago(hour-1, 900, 800, 700, 600), 1},
		"of which the oldest is outside the hour": {ago(hour+1, 900, 800, 700, 600), 0},
		"ten a day": {ago(day-5, 80000, 70000, 60000, 50000, 40000, 30000, 20000, 15000, 10000), 5},
	} {
		next := NextSend(tc.sends, now)
		if got := int(next.Sub(now).Seconds()); tc.want > 0 && got != tc.want || tc.want == 0 && next.After(now) {
			t.Errorf("%s: in %d s, want %d", name, got, tc.want)
		}
	}
	// A client that asks as soon as it is allowed never exceeds the bounds.
	rapid.Check(t, func(t *rapid.T) {
		var sends []time.Time
		at := now
		for range rapid.IntRange(1, 40).Draw(t, "sends") {
			at = at.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "pause")) * time.Second)
			var window []time.Time
			for _, s := range sends {
				if s.After(at.Add(-Window)) {
					window = append(window, s)
				}
			}
			if !NextSend(window, at).After(at) {
				sends = append(sends, at)
			}
		}
		for i := range sends {
			for most, span := range map[int]time.Duration{perHour: time.Hour, perDay: Window} {
				if i >= most && sends[i].Sub(sends[i-most]) < span {
					t.Fatalf("more than %d within %s", most, span)
				}
			}
		}
	})
}

func TestRegionBudget(t *testing.T) {
	for _, tc := range []struct {
		daily int64
		only  bool
		want  int64
	}{{1000, true, 1000}, {1000, false, 500}, {1, false, 1}, {0, false, 0}, {3, false, 2}} {
		if got := RegionBudget(tc.daily, tc.only); got != tc.want {
			t.Errorf("RegionBudget(%d, %v) = %d, want %d", tc.daily, tc.only, got, tc.want)
		}
	}
}

// FuzzNormalize checks that any input becomes six ASCII digits or is refused.
func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"123456", " 123 456 ", "123-456", "１２３４５６", "12 34 56", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		code, ok := Normalize(typed)
		if ok != (len(code) == digits) || strings.Trim(code, "0123456789") != "" {
			t.Fatalf("%q became %q, %v", typed, code, ok)
		}
	})
}
