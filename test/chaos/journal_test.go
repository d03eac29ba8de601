package chaos

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/test/testkit"
)

func newTestLoad(t *testing.T) (*load, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := newJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	return &load{journal: j}, path
}

func TestResponsesNarrowTheStatesOfAnObject(t *testing.T) {
	ok, none := testkit.Answer{Status: 200}, testkit.Answer{}
	away, broken, refused := testkit.Answer{Status: 503}, testkit.Answer{Status: 500}, testkit.Answer{Status: 409}
	lost := errors.New("connection reset")
	type write struct {
		state  string
		answer testkit.Answer
		err    error
	}
	for name, tc := range map[string]struct {
		writes  []write
		may     []string
		mayNot  []string
		settled bool
		faults  int
	}{
		"acknowledged":               {[]write{{"1", ok, nil}}, []string{"1"}, []string{absent, "2"}, true, 0},
		"changed":                    {[]write{{"1", ok, nil}, {"2", ok, nil}}, []string{"2"}, []string{absent, "1"}, true, 0},
		"deleted":                    {[]write{{"1", ok, nil}, {absent, ok, nil}}, []string{absent}, []string{"1"}, true, 0},
		"never answered":             {[]write{{"1", none, lost}}, []string{absent, "1"}, []string{"2"}, false, 0},
		"a change without an answer": {[]write{{"1", ok, nil}, {"2", none, lost}}, []string{"1", "2"}, []string{absent}, false, 0},
		"a change put off":           {[]write{{"1", ok, nil}, {"2", away, nil}}, []string{"1", "2"}, []string{absent}, false, 0},
		"a change refused":           {[]write{{"1", ok, nil}, {"2", refused, nil}}, []string{"1"}, []string{"2", absent}, true, 0},
		"a fault":                    {[]write{{"1", ok, nil}, {"2", broken, nil}}, []string{"1", "2"}, []string{absent}, false, 1},
		"a deletion without an answer": {
			[]write{{"1", ok, nil}, {absent, none, lost}}, []string{"1", absent}, []string{"2"}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l, path := newTestLoad(t)
			for _, w := range tc.writes {
				l.outcome("scheme/x", w.state, w.answer, w.err)
			}
			for _, state := range tc.may {
				if fault := l.compare("scheme/x", state, "here"); fault != "" {
					t.Error(fault)
				}
			}
			for _, state := range tc.mayNot {
				if l.compare("scheme/x", state, "here") == "" {
					t.Errorf("%q passes", state)
				}
			}
			if l.settled("scheme/x") != tc.settled || len(l.faults) != tc.faults {
				t.Errorf("settled %t, faults %q", l.settled("scheme/x"), l.faults)
			}
			if text, _ := os.ReadFile(path); strings.Count(string(text), "\n") < len(tc.writes) {
				t.Errorf("the journal has no line for each write:\n%s", text)
			}
		})
	}
}

func TestObjectsAreCountedByTheirStates(t *testing.T) {
	l, _ := newTestLoad(t)
	l.acknowledge("person/a", "there")
	l.acknowledge("person/b", "there")
	l.wonder("person/c", "there", "no answer")
	l.acknowledge("session/a", "alive")
	if sure, perhaps := l.count("person"); sure != 2 || perhaps != 3 {
		t.Errorf("%d and %d", sure, perhaps)
	}
	if objects := l.objects("person"); strings.Join(objects, " ") != "person/a person/b person/c" {
		t.Errorf("%v", objects)
	}
}

func TestScheduleDependsOnlyOnItsSeed(t *testing.T) {
	const length = 30 * time.Minute
	blows, again, other := schedule(7, length), schedule(7, length), schedule(8, length)
	same := func(a, b []blow) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return true
	}
	if !same(blows, again) || same(blows, other) {
		t.Error("a schedule is not its seed's alone")
	}
	struck := map[string]bool{}
	for _, b := range blows {
		struck[b.does+" "+b.target] = true
		if b.at < 0 || b.at > length || b.lasts <= 0 {
			t.Errorf("%+v", b)
		}
	}
	for _, target := range strikable {
		for _, does := range target.does {
			if !struck[does+" "+target.name] {
				t.Errorf("in half an hour no blow is %s of %s", does, target.name)
			}
		}
		for i, b := range of(target.name, blows) {
			if i > 0 && b.at < of(target.name, blows)[i-1].at {
				t.Errorf("the blows for %s are out of order", target.name)
			}
		}
	}
}
