package document

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/scheme"
)

func TestRoundTrip(t *testing.T) {
	meta := Meta{CreatedAt: time.Unix(1700000000, 0).UTC(), UpdatedAt: time.UnixMicro(1700000000123456).UTC()}
	want := RateLimitScheme{Slug: "free", Name: "Free", Rules: []scheme.Rule{{Unit: "minute", Duration: 1, MaxRequests: 5}}}
	payload, err := Encode(meta, want)
	if err != nil {
		t.Fatal(err)
	}
	var got RateLimitScheme
	gotMeta, err := Decode(payload, &got)
	if err != nil || gotMeta != meta || got.Slug != want.Slug || !scheme.EqualEffective(got.Rules, want.Rules) {
		t.Fatalf("got %+v, %+v, %v", gotMeta, got, err)
	}
}

func TestReadersIgnoreUnknownMembersAndRefuseUnknownVersions(t *testing.T) {
	var app APIAuthApp
	if _, err := Decode([]byte(`{"v":1,"new":1,"meta":{"later":true},"content":{"slug":"a","later":[]}}`), &app); err != nil || app.Slug != "a" {
		t.Errorf("unknown member: %v", err)
	}
	if _, err := Decode([]byte(`{"v":2,"meta":{},"content":{}}`), &app); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("unknown version: %v", err)
	}
	if _, err := Decode([]byte(`{`), &app); err == nil {
		t.Error("garbage accepted")
	}
}

func TestHashTellsContentAndKindApart(t *testing.T) {
	a, _ := Hash("A", APIAuthApp{Slug: "x"})
	b, _ := Hash("A", APIAuthApp{Slug: "y"})
	c, _ := Hash("B", APIAuthApp{Slug: "x"})
	again, _ := Hash("A", APIAuthApp{Slug: "x"})
	if a == b || a == c || a != again || len(a) != 64 {
		t.Errorf("hashes %s %s %s %s", a, b, c, again)
	}
}
