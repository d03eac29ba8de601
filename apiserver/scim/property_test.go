package scim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// memberOperation is an operation on members, and what it does to a set.
type memberOperation struct {
	json  string
	apply func(map[int64]bool)
}

func drawMemberOperation(t *rapid.T) memberOperation {
	ids := rapid.SliceOfN(rapid.Int64Range(1, 6), 0, 4).Draw(t, "ids")
	var values, terms []string
	for _, id := range ids {
		text := strconv.FormatInt(id, 10)
		values, terms = append(values, `{"value":"`+text+`"}`), append(terms, `value eq \"`+text+`\"`)
	}
	list := "[" + strings.Join(values, ",") + "]"
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if kind == 4 && (len(ids) == 0 || len(ids) > 2) {
		kind = 3
	}
	set := func(s map[int64]bool, present bool) {
		for _, id := range ids {
			if delete(s, id); present {
				s[id] = true
			}
		}
	}
	switch kind {
	case 0:
		return memberOperation{`{"op":"add","path":"members","value":` + list + `}`, func(s map[int64]bool) { set(s, true) }}
	case 1:
		return memberOperation{`{"op":"replace","value":{"members":` + list + `}}`, func(s map[int64]bool) { clear(s); set(s, true) }}
	case 2:
		return memberOperation{`{"op":"remove","path":"members"}`, func(s map[int64]bool) { clear(s) }}
	case 3:
		return memberOperation{`{"op":"Remove","path":"members","value":` + list + `}`, func(s map[int64]bool) { set(s, false) }}
	case 4:
		return memberOperation{`{"op":"remove","path":"members[` + strings.Join(terms, " or ") + `]"}`, func(s map[int64]bool) { set(s, false) }}
	default:
		return memberOperation{`{"op":"replace","path":"displayName","value":"H"}`, func(map[int64]bool) {}}
	}
}

func TestMemberChangeEqualsTheOperationsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := map[int64]bool{}
		for _, id := range rapid.SliceOf(rapid.Int64Range(1, 8)).Draw(t, "before") {
			before[id] = true
		}
		want := maps.Clone(before)
		var operations []string
		for range rapid.IntRange(1, 8).Draw(t, "count") {
			o := drawMemberOperation(t)
			operations = append(operations, o.json)
			o.apply(want)
		}
		p, err := ReadPatch(patchBody(strings.Join(operations, ",")))
		if err != nil {
			t.Fatal(err)
		}
		_, change, err := Group{DisplayName: "G"}.Apply(p)
		if err != nil {
			t.Fatal(err)
		}
		got := maps.Clone(before)
		if change.Replace {
			clear(got)
		}
		for _, id := range change.Remove {
			delete(got, id)
		}
		for _, id := range change.Add {
			got[id] = true
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%v after %v: %+v gives %v, want %v", before, operations, change, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
		}
		for _, id := range change.Add {
			if slices.Contains(change.Remove, id) {
				t.Fatalf("%d is in both of %+v", id, change)
			}
		}
	})
}

func TestPatchesKeepDocumentsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for _, patch := range randomPatches(r, 6) {
			u, err := ReadUser(patch.Before)
			if err != nil {
				t.Fatal(err)
			}
			before := string(encode(u.doc))
			after, err := applyTo(u, strings.Trim(string(patch.Operations), "[]"))
			if kept := string(encode(u.doc)); kept != before {
				t.Fatalf("%s changed %s to %s", patch.Operations, before, kept)
			}
			if err != nil {
				continue
			}
			raw, err := after.Encode()
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := DecodeUser(raw)
			if err != nil || !decoded.Equal(after) {
				t.Fatalf("%v: %s is decoded as another document", err, raw)
			}
			if read, err := ReadUser(raw); err != nil || !read.Equal(after) {
				t.Fatalf("%v: %s is read as another document", err, raw)
			}
		}
	})
}

// Each of the most operations selects one of the most values.
func TestLargestPatch(t *testing.T) {
	var operations, emails []string
	for i := range MaxOperations {
		operations = append(operations, fmt.Sprintf(`{"op":"replace","path":"emails[value eq \"%d\"].display","value":"%d"}`, i%maxValues, i))
	}
	for i := range maxValues {
		emails = append(emails, fmt.Sprintf(`{"value":"%d","type":"q"}`, i))
	}
	u := mustUser(t, `{"userName":"a","emails":[`+strings.Join(emails, ",")+`]}`)
	after, err := applyTo(u, strings.Join(operations, ","))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(encode(after.doc)), `"display":"9999"`) {
		t.Error("the last operation is lost")
	}
}

func TestPathsThatNeedTheParserAreBounded(t *testing.T) {
	u := mustUser(t, `{"userName":"a"}`)
	text := strings.Repeat("x", MaxPathBytes-50)
	operation := `{"op":"remove","path":"emails[value co \"` + text + `\"]"}`
	_, err := applyTo(u, operation+strings.Repeat(","+operation, maxParsedPaths/len(text)))
	fails(t, err, TooMany)
	key := `"emails[value co \"` + text + `\"].value":null`
	_, err = applyTo(u, `{"op":"replace","value":{`+key+strings.Repeat(","+key, maxParsedPaths/len(text))+`}}`)
	fails(t, err, TooMany)
}

// checkPath checks that a usual path is parsed as by the parser of filters. Paths are UTF-8, as all of a body.
func checkPath(t *testing.T, text string) {
	t.Helper()
	if !selectedByEquality.MatchString(text) || !utf8.ValidString(text) || len(text) > MaxPathBytes {
		return
	}
	fast, err := new(paths).parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	slow, err := new(paths).parseFilter(path{given: text}, text)
	if err != nil || !reflect.DeepEqual(fast.expression, slow.expression) || fast.name != slow.name || fast.sub != slow.sub || slow.schema != "" {
		t.Fatalf("%s: %+v, but the parser has %+v %v", text, fast, slow, err)
	}
}

func TestUsualPathsAreParsedAsByTheParser(t *testing.T) {
	for _, text := range []string{`emails[type eq "work"].value`, `members[value EQ "7"]`, `a-b_1[ $ref   eq "x y.[]é" ].$ref`} {
		if !selectedByEquality.MatchString(text) {
			t.Errorf("%s is not a usual path", text)
		}
		checkPath(t, text)
	}
}
