package body

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

func TestParseRequiresOneObject(t *testing.T) {
	for _, in := range []string{
		"", " ", "null", "[]", `"x"`, "1", "{", `{"a"`, `{"a":}`, `{"a":1,}`, `{a:1}`, `{"a":1}{}`, `{"a":1} x`, `{"a":01}`,
		"{\"a\":\"\xff\"}", `{"a":"\ud800"}`, strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), "\xef\xbb\xbf{}",
	} {
		_, err := Parse([]byte(in))
		var p *apierror.Error
		if !errors.As(err, &p) || p.Status != 400 {
			t.Errorf("Parse(%q): %v, want a 400", in, err)
		}
	}
}

func TestFaultsAreReturnedTogether(t *testing.T) {
	o, err := Parse([]byte(`{"name":1,"n":1.5,"list":["a",2],"rules":[{"unit":null},7],"extra":0,"a/b~c":1,"name":"again"}`))
	if err != nil {
		t.Fatal(err)
	}
	o.String("name")
	o.Integer("n")
	o.Strings("list")
	o.Require("missing")
	rules, ok := o.Objects("rules")
	if ok || len(rules) != 1 {
		t.Errorf("rules: %d, %v", len(rules), ok)
	}
	rules[0].String("unit")
	rules[0].Close()
	o.Close()
	var p *apierror.Error
	if !errors.As(o.Err(), &p) {
		t.Fatal("no problem")
	}
	var at []string
	for _, item := range p.Faults {
		at = append(at, item.Pointer)
	}
	want := []string{"/name", "/name", "/n", "/list/1", "/missing", "/rules/1", "/rules/0/unit", "/extra", "/a~1b~0c"}
	if !slices.Equal(at, want) {
		t.Errorf("faults at %q, want %q", at, want)
	}
}

func TestAtMostHundredFaultsAreListed(t *testing.T) {
	o, err := Parse([]byte(`{"list":[` + strings.Repeat("1,", 149) + `1]}`))
	if err != nil {
		t.Fatal(err)
	}
	list, ok := o.Strings("list")
	if ok || len(list) != 150 || !o.Faulty("list/0") || !o.Faulty("list/149") || o.Faulty("list") {
		t.Errorf("%d elements, %v", len(list), ok)
	}
	var p *apierror.Error
	if !errors.As(o.Err(), &p) || len(p.Faults) != maxFaults+1 || p.Faults[maxFaults].Message != "and 50 more faults" {
		t.Errorf("%v", o.Err())
	}
	if !errors.As(o.Err(), &p) || len(p.Faults) != maxFaults+1 {
		t.Error("a second call of Err returns another result")
	}
}

func TestGoodValues(t *testing.T) {
	o, err := Parse([]byte(` {"s":"ü","n":-3,"l":[],"z":null} `))
	if err != nil {
		t.Fatal(err)
	}
	s, _ := o.String("s")
	n, _ := o.Integer("n")
	l, ok := o.Strings("l")
	if s != "ü" || n != -3 || l == nil || !ok || !o.IsNull("z") || o.Has("y") || o.IsNull("y") {
		t.Errorf("got %q %d %v", s, n, l)
	}
	o.Close()
	if err := o.Err(); err != nil {
		t.Error(err)
	}
}

// A body of an unknown client costs a small multiple of its length, and is bounded in levels and values.
func TestHostileBodyCostsLittle(t *testing.T) {
	fill := func(head, unit, tail string, size int) []byte {
		return []byte(head + strings.Repeat(unit, (size-len(head)-len(tail))/len(unit)) + tail)
	}
	for name, raw := range map[string][]byte{
		"objects in a list": fill(`{"email":[`, `{"":1},`, `1]}`, MaxEndUserBytes),
		"a flat list":       fill(`{"email":[`, `1,`, `1]}`, MaxEndUserBytes),
		"unknown members":   fill(`{`, `"a":1,`, `"b":1}`, MaxEndUserBytes),
		"deep":              []byte(strings.Repeat(`{"`+strings.Repeat("n", 500)+`":`, 30) + "1" + strings.Repeat("}", 30)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if o, err := Parse(raw); err == nil {
			o.String("email")
			o.Close()
			_ = o.Err()
		}
		runtime.ReadMemStats(&after)
		if cost, most := after.TotalAlloc-before.TotalAlloc, uint64(64*len(raw)); cost > most {
			t.Errorf("%s: %d bytes allocated for a body of %d, want at most %d", name, cost, len(raw), most)
		}
	}
	if _, err := Parse([]byte(`{"a":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`)); err == nil {
		t.Error("33 levels: accepted")
	}
	if _, err := Parse([]byte(`{"a":[` + strings.Repeat("1,", 9_997) + `1]}`)); err != nil {
		t.Errorf("10,000 values: %v", err)
	}
	if _, err := Parse([]byte(`{"a":[` + strings.Repeat("1,", 9_998) + `1]}`)); err == nil {
		t.Error("10,001 values: accepted")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":[{"b":null}],"a":1}`, `{}`, `[`, `{"\u0000":1e400}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := Parse(raw)
		if err != nil {
			return
		}
		o.String("a")
		o.Objects("a")
		o.Integer("a")
		o.Close()
		_ = o.Err()
	})
}
