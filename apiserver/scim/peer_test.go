package scim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// peerInput and peerOutput are what test/scimpeers/compare.js reads and prints.
type peerInput struct {
	Patches []peerPatch  `json:"patches"`
	Filters []peerFilter `json:"filters"`
}

type peerPatch struct {
	Before     json.RawMessage `json:"before"`
	Operations json.RawMessage `json:"operations"`
	shapes     []string
}

type peerFilter struct {
	Resource json.RawMessage `json:"resource"`
	Filter   string          `json:"filter"`
	shapes   []string
}

type peerOutput struct {
	Patches []map[string]struct {
		After json.RawMessage `json:"after"`
		Error string          `json:"error"`
	} `json:"patches"`
	Filters []struct {
		Matches bool   `json:"matches"`
		Error   string `json:"error"`
	} `json:"filters"`
}

// compare runs the published implementations.
func compare(t *testing.T, input peerInput) (out peerOutput) {
	t.Helper()
	peers, err := filepath.Abs("../../test/scimpeers")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(peers, "node_modules", ".installed")); err != nil {
		t.Skip("scim-patch is missing: make test-connections installs it")
	}
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "node", "compare.js")
	command.Dir, command.Stdin = peers, bytes.NewReader(raw)
	var stderr strings.Builder
	command.Stderr = &stderr
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if err := json.Unmarshal(printed, &out); err != nil || len(out.Patches) != len(input.Patches) || len(out.Filters) != len(input.Filters) {
		t.Fatalf("%v: %s", err, printed)
	}
	return out
}

// words replaces each $ of a text by a random word.
func words(r *rand.Rand, text string) string {
	for strings.Contains(text, "$") {
		text = strings.Replace(text, "$", string(rune('a'+r.IntN(4))), 1)
	}
	return text
}

func randomDocument(r *rand.Rand) json.RawMessage {
	parts := []string{`"userName":"u$"`}
	for _, part := range []string{
		`"title":"$"`, `"active":true`, `"name":{"givenName":"$"}`, `"nickName":"$"`, `"` + EnterpriseSchema + `":{"department":"$"}`,
		`"roles":[{"value":"$"}]`,
	} {
		if r.IntN(2) == 0 {
			parts = append(parts, part)
		}
	}
	parts = append(parts, [...]string{
		`"locale":"$"`, `"emails":[{"type":"work","value":"$"}]`, `"emails":[{"type":"home","value":"$"}]`,
		`"emails":[{"type":"work","value":"$"},{"type":"home","value":"$"}]`, `"emails":[{"type":"home","value":"$"},{"type":"work","value":"$"}]`,
	}[r.IntN(5)])
	return json.RawMessage(words(r, "{"+strings.Join(parts, ",")+"}"))
}

// patchShapes are operations by name. Each $ is a random word.
var patchShapes = []struct{ name, operation string }{
	{"replace a string", `{"op":"replace","path":"title","value":"$"}`},
	{"add a string", `{"op":"add","path":"title","value":"$"}`},
	{"remove a string", `{"op":"remove","path":"title"}`},
	{"replace a boolean", `{"op":"replace","path":"active","value":false}`},
	{"Okta", `{"op":"replace","value":{"active":false,"title":"$"}}`},
	{"without a path", `{"op":"add","value":{"title":"$","nickName":"$"}}`},
	{"Entra's op", `{"op":"Replace","path":"nickName","value":"$"}`},
	{"Entra's Remove", `{"op":"Remove","path":"nickName"}`},
	{"replace a part", `{"op":"replace","path":"name.givenName","value":"$"}`},
	{"add a part", `{"op":"add","path":"name.familyName","value":"$"}`},
	{"remove a part", `{"op":"remove","path":"name.familyName"}`},
	{"merge an object", `{"op":"add","path":"name","value":{"familyName":"$"}}`},
	{"replace an object", `{"op":"replace","path":"name","value":{"familyName":"$"}}`},
	{"an object without a path", `{"op":"add","value":{"name":{"familyName":"$"}}}`},
	{"a dotted key", `{"op":"add","value":{"name.familyName":"$"}}`},
	{"add values", `{"op":"add","path":"roles","value":[{"value":"x$$"}]}`},
	{"add an equal value", `{"op":"add","path":"roles","value":[{"value":"$"},{"value":"$"}]}`},
	{"replace values", `{"op":"replace","path":"emails","value":[{"type":"work","value":"$"},{"type":"other","value":"$"}]}`},
	{"remove values", `{"op":"remove","path":"emails"}`},
	{"remove given values", `{"op":"remove","path":"roles","value":[{"value":"$"}]}`},
	{"replace a selected part", `{"op":"replace","path":"emails[type eq \"work\"].value","value":"$"}`},
	{"add a selected part", `{"op":"add","path":"emails[type eq \"work\"].value","value":"$"}`},
	{"remove a selected part", `{"op":"remove","path":"emails[type eq \"work\"].value"}`},
	{"remove selected", `{"op":"remove","path":"emails[type eq \"work\"]"}`},
	{"remove selected by two", `{"op":"remove","path":"emails[type eq \"work\" and value ne \"$\"]"}`},
	{"merge a selected one", `{"op":"replace","path":"emails[type eq \"work\"]","value":{"display":"$"}}`},
	{"the extension", `{"op":"add","path":"` + EnterpriseSchema + `:department","value":"$"}`},
	{"replace in the extension", `{"op":"replace","path":"` + EnterpriseSchema + `:division","value":"$"}`},
	{"remove from the extension", `{"op":"remove","path":"` + EnterpriseSchema + `:department"}`},
	{"the manager", `{"op":"add","path":"` + EnterpriseSchema + `:manager","value":"7"}`},
	{"the core schema", `{"op":"replace","path":"` + UserSchema + `:title","value":"$"}`},
	{"an unknown op", `{"op":"copy","path":"title","value":"$"}`},
	{"no value", `{"op":"add","path":"title"}`},
	{"no path", `{"op":"remove"}`},
	{"an unknown attribute", `{"op":"add","path":"shoeSize","value":"$"}`},
	{"a required attribute", `{"op":"remove","path":"userName"}`},
	{"a wrong type", `{"op":"replace","path":"title","value":{"x":"$"}}`},
}

// patchDeviations are the shapes in which a peer decides otherwise, and why.
var patchDeviations = map[string]map[string]string{
	"scim-patch": {
		"a wrong type":             "it knows no types",
		"an unknown attribute":     "it knows no attributes",
		"a required attribute":     "it knows no attributes",
		"an object without a path": "it replaces objects within a value",
		"remove a selected part":   "it refuses a filter of an attribute that is absent",
		"remove selected":          "it refuses a filter of an attribute that is absent",
		"remove selected by two":   "it refuses a filter of an attribute that is absent",
		"merge a selected one":     "it does not create what a filter describes",
		"remove given values":      "it refuses values of an attribute that is absent",
		"add an equal value":       "it compares added values with old ones alone",
	},
	"scimmy": {
		"replace a selected part": "it does not create what a filter describes",
		"add a selected part":     "it does not create what a filter describes",
		"merge a selected one":    "it replaces the whole value",
		"replace an object":       "it replaces the whole object",
		"remove given values":     "it refuses values of an attribute that is absent",
		"add an equal value":      "it adds duplicates",
		"the manager":             "it does not know the string that Entra sends",
		"the core schema":         "it does not know the schema in a path of replace",
	},
}

func randomPatches(r *rand.Rand, count int) []peerPatch {
	var patches []peerPatch
	for i := range count {
		operations, shapes := []string{}, []string{}
		for range 1 + i%3 {
			shape := patchShapes[r.IntN(len(patchShapes))]
			operations, shapes = append(operations, words(r, shape.operation)), append(shapes, shape.name)
		}
		patches = append(patches, peerPatch{randomDocument(r), json.RawMessage("[" + strings.Join(operations, ",") + "]"), shapes})
	}
	return patches
}

// applied returns the document after a patch, or an error.
func (p peerPatch) applied() (User, error) {
	u, err := ReadUser(p.Before)
	if err != nil {
		return User{}, err
	}
	return applyTo(u, strings.Trim(string(p.Operations), "[]"))
}

// deviates returns the first shape that a peer is known to decide otherwise.
func deviates(shapes []string, known map[string]string) string {
	for _, shape := range shapes {
		if known[shape] != "" {
			return shape
		}
	}
	return ""
}

func TestPublishedImplementationsAgreeOnPatch(t *testing.T) {
	patches := randomPatches(rand.New(rand.NewPCG(1, 2)), 2000)
	out := compare(t, peerInput{Patches: patches})
	for peer, known := range patchDeviations {
		t.Run(peer, func(t *testing.T) {
			agreed, seen := 0, map[string]bool{}
			for i, patch := range patches {
				theirs := out.Patches[i][peer]
				u, err := patch.applied()
				same := (err != nil) == (theirs.Error != "")
				if same && err == nil {
					after, unreadable := ReadUser(theirs.After)
					same = unreadable == nil && after.Equal(u)
				}
				shape := deviates(patch.shapes, known)
				switch {
				case same:
					agreed++
				case shape != "":
					seen[shape] = true
				default:
					t.Errorf("%v: %s after %s\nhere  %s %v\nthere %s %s", patch.shapes, patch.Operations, patch.Before, encode(u.doc), err, theirs.After, theirs.Error)
				}
			}
			for shape := range known {
				if !seen[shape] {
					t.Errorf("%s is no deviation", shape)
				}
			}
			t.Logf("%d of %d agree", agreed, len(patches))
		})
	}
}

// filterShapes are filters by name. Each $ is a random word.
var filterShapes = []struct{ name, filter string }{
	{"eq", `userName eq "u$"`}, {"ne", `userName ne "u$"`}, {"co", `userName co "$"`}, {"sw", `userName sw "u"`}, {"ew", `userName ew "$"`},
	{"gt", `userName gt "u$"`}, {"ge", `userName ge "u$"`}, {"lt", `userName lt "u$"`}, {"le", `userName le "u$"`},
	{"eq of what may be absent", `title eq "$"`}, {"pr", `title pr`}, {"not pr", `not (title pr)`}, {"a part", `name.givenName eq "$"`},
	{"a boolean", `active eq true`}, {"a word as a boolean", `active eq "true"`}, {"a value", `emails.value eq "$"`}, {"a type", `emails.type eq "work"`},
	{"selected values", `emails[type eq "work" and value eq "$"]`}, {"values with or", `emails[type eq "work" or value eq "$"]`},
	{"values with not", `emails[not (type eq "work")]`}, {"the extension", EnterpriseSchema + `:department eq "$"`},
	{"another case", `USERNAME eq "U$"`}, {"ne of what may be absent", `title ne "$"`}, {"ne of values", `emails.value ne "$"`}, {"null", `title eq null`},
	{"values without a part", `emails eq "$"`}, {"an unknown attribute", `shoeSize eq "$"`}, {"a syntax error", `title eq`}, {"an order of booleans", `active gt true`},
}

// filterDeviations are the shapes of filters that scim2-parse-filter decides otherwise, and why.
var filterDeviations = map[string]string{
	"another case":             "it compares strings by case",
	"a word as a boolean":      "it does not know the word that Entra sends",
	"null":                     "nothing is equal to null",
	"a boolean":                "an absent active is not true",
	"ne of what may be absent": "an absent value fulfills no comparison",
	"ne of values":             "one other value suffices",
	"values without a part":    "it does not compare the value",
	"an unknown attribute":     "it knows no attributes",
	"an order of booleans":     "it knows no types",
	"selected values":          "terms may hold for different values",
	"values with not":          "no value may fulfill the term",
}

func randomFilters(r *rand.Rand, count int) []peerFilter {
	var filters []peerFilter
	for i := range count {
		shape := filterShapes[r.IntN(len(filterShapes))]
		text, shapes := words(r, shape.filter), []string{shape.name}
		for range i % 4 {
			shape := filterShapes[r.IntN(len(filterShapes))]
			shapes = append(shapes, shape.name)
			join := [...]string{"%s and %s", "%s or %s", "(%s) and %s", "not (%s) or %s"}[r.IntN(4)]
			text = fmt.Sprintf(join, text, words(r, shape.filter))
		}
		filters = append(filters, peerFilter{randomDocument(r), text, shapes})
	}
	return filters
}

func TestPublishedParserAgreesOnFilters(t *testing.T) {
	filters := randomFilters(rand.New(rand.NewPCG(3, 4)), 2000)
	out := compare(t, peerInput{Filters: filters})
	agreed, seen := 0, map[string]bool{}
	for i, given := range filters {
		theirs := out.Filters[i]
		matches := false
		f, err := ParseUserFilter(given.Filter)
		if err == nil {
			matches = f.MatchUser(mustUser(t, string(given.Resource)), Meta{})
		}
		shape := deviates(given.shapes, filterDeviations)
		switch {
		case (err != nil) == (theirs.Error != "") && matches == theirs.Matches:
			agreed++
		case shape != "":
			seen[shape] = true
		default:
			t.Errorf("%s of %s: here %t %v, there %t %s", given.Filter, given.Resource, matches, err, theirs.Matches, theirs.Error)
		}
	}
	for shape := range filterDeviations {
		if !seen[shape] {
			t.Errorf("%s is no deviation", shape)
		}
	}
	t.Logf("%d of %d agree", agreed, len(filters))
}
