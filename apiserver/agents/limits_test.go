package agents_test

import (
	"crypto/rand"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
)

func TestRequestsAreCountedByTheSchemeOfTheKey(t *testing.T) {
	w := newWorld(t)
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindRateLimitScheme, "few", frontendtest.Deployment, "few", document.RateLimitScheme{Slug: "few", Name: "few", Rules: []scheme.Rule{{Unit: "day", Duration: 1, MaxRequests: 3}}})
	w.Put(v1alpha1.KindAPIAuthApp, "limited", frontendtest.Deployment, "limited", document.APIAuthApp{Slug: "limited", Active: true, Permissions: []string{"*"}, Scheme: "few"})
	w.Put(v1alpha1.KindAPIKey, "limited", frontendtest.Deployment, "", document.APIKey{App: "limited", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}})
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	served := 0
	w.Eventually("the limit is used up", func() bool {
		a := w.post("support", minted.Plain(), ping)
		if a.status == 200 {
			served++
		}
		if a.status == 429 && a.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", a.header)
		}
		return a.status == 429
	})
	if served != 3 {
		t.Errorf("%d requests were served", served)
	}
	if _, count := w.up.last(); count != 0 {
		t.Error("a tool was called")
	}
}
