package messagegateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"testing"
)

func TestTXTRecordsAreSetOverHTTP(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, c.DNS().Address())
	}}
	const name = "_cardea-challenge.acme.example"
	put := func(target, body string) int {
		return do(t, http.MethodPut, c.URL()+target, "application/json", body, false).status
	}
	if status := put("/_dns?name="+name, `["one","two"]`); status != http.StatusNoContent {
		t.Fatalf("status %d", status)
	}
	if texts, err := resolver.LookupTXT(t.Context(), name+"."); err != nil || !slices.Equal(texts, []string{"one", "two"}) {
		t.Errorf("%q, %v", texts, err)
	}
	if status := put("/_dns?name="+name, `[]`); status != http.StatusNoContent {
		t.Fatalf("status %d", status)
	}
	var missing *net.DNSError
	if texts, err := resolver.LookupTXT(t.Context(), name+"."); !errors.As(err, &missing) || !missing.IsNotFound {
		t.Errorf("%q, %v", texts, err)
	}
	for target, body := range map[string]string{"/_dns": `[]`, "/_dns?name=x": `{}`, "/_dns?name=y": `[1]`} {
		if status := put(target, body); status != http.StatusBadRequest {
			t.Errorf("PUT %s %s: %d", target, body, status)
		}
	}
}
