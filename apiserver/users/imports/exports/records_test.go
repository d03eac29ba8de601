package exports

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// exported converts texts, and returns the lines and the Lines.
func exported(t *testing.T, system string, texts ...string) (string, *Lines) {
	t.Helper()
	files := make([]File, len(texts))
	for i, text := range texts {
		files[i] = File{fmt.Sprint("f", i), strings.NewReader(text)}
	}
	var out bytes.Buffer
	lines := NewLines(&out)
	if err := Convert(system, files, Options{}, lines); err != nil {
		t.Fatal(err)
	}
	return out.String(), lines
}

func TestUnreadableRecordDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxRecord)
	for name, tc := range map[string]struct{ system, text, left string }{
		"another form in a list": {"firebase", `{"users":[{"localId":"a"},[1],{"localId":7},"x",{"localId":"b"}]}`, otherForm},
		"another form in lines":  {"auth0", "{\"user_id\":\"a\"}\n{\"user_id\":7}\n[]\n7\n{\"user_id\":\"b\"}", otherForm},
		"a line without end":     {"auth0", "{\"user_id\":\"a\"}\n" + long + "\n{\"user_id\":\"b\"}\n", tooLong},
	} {
		text, lines := exported(t, tc.system, tc.text)
		left := lines.LeftOut()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, `"a"`) || !strings.Contains(text, `"b"`) || len(left) != 1 || left[0].What != tc.left || left[0].First.Record != 2 {
			t.Errorf("%s: %s, %+v", name, text, left)
		}
	}
}

// The bound applies to one record only: skipped parts, and all records together, may be longer.
func TestOnlyRecordsAreBounded(t *testing.T) {
	t.Parallel()
	clients := strings.TrimSuffix(strings.Repeat(`{"id":["x"]},`, maxRecord/8), ",")
	users := strings.TrimSuffix(strings.Repeat(`{"id":"u","attributes":{"x":"`+strings.Repeat("x", maxRecord/2)+`"}},`, 4), ",")
	if text, _ := exported(t, "keycloak", `{"clients":[`+clients+`],"users":[`+users+`],"more":[`+clients+`]}`); strings.Count(text, "\n") != 4 {
		t.Errorf("%d lines", strings.Count(text, "\n"))
	}
	row := "u,," + strings.Repeat("x", 1000) + "\n"
	if text, _ := exported(t, "clerk", "id,primary_email_address,extra\n"+strings.Repeat(row, maxRecord/500)); strings.Count(text, "\n") != maxRecord/500 {
		t.Errorf("%d rows", strings.Count(text, "\n"))
	}
}

func TestErrorNamesFileAndRecord(t *testing.T) {
	t.Parallel()
	for system, tc := range map[string][2]string{
		"clerk": {"id,primary_email_address\na,\nb,\"\n", "f: record 3: "}, "auth0": {"{\"user_id\":\"a\"}\n{", "f: record 2: "},
		"keycloak": {`{"users":[{"id":"a"},{`, "f: record 2: "},
	} {
		err := Convert(system, []File{{"f", strings.NewReader(tc[0])}}, Options{}, NewLines(&bytes.Buffer{}))
		if err == nil || !strings.HasPrefix(err.Error(), tc[1]) {
			t.Errorf("%s: %v", system, err)
		}
	}
}

func TestSourcesReturnTheSourceOfEachLine(t *testing.T) {
	t.Parallel()
	var s sources
	var want []Source
	for i := range 10_000 {
		source := Source{fmt.Sprint("f", i/4000), i%4000/3 + 1}
		if i > 9000 {
			source.Record *= 1000
		}
		s.add(source)
		want = append(want, source)
	}
	for i := range want {
		if got := s.of(int64(i + 1)); got != want[i] {
			t.Fatalf("line %d: %+v, want %+v", i+1, got, want[i])
		}
	}
	if s.of(0) != (Source{}) || s.of(10_001) != (Source{}) {
		t.Error("a number outside the lines has a source")
	}
}

func TestExternalIDsDoNotContainAddresses(t *testing.T) {
	t.Parallel()
	text, _ := exported(t, "clerk", "id,primary_email_address,primary_phone_number\nu,Ada@example.com,+14155552671\n")
	again, _ := exported(t, "clerk", "id,primary_email_address,primary_phone_number\nu,ada@example.com,+14155552671\n")
	id := func(text string) string {
		return strings.Split(strings.Split(text, `"type":"email","external_id":"`)[1], `"`)[0]
	}
	if strings.Contains(text, "u/ada") || strings.Contains(text, "u/+") || id(text) != id(again) {
		t.Errorf("%s\n%s", text, again)
	}
	named := map[string]bool{}
	for i := range 20_000 {
		addressID("u", fmt.Sprint(i), named)
	}
	if len(named) != 20_000 {
		t.Errorf("%d ids of 20000 addresses", len(named))
	}
}
