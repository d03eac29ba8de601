package site

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

func TestBaseLeadsToPages(t *testing.T) {
	t.Parallel()
	staging := document.Deployment{Mode: "Staging", FrontendHosts: []string{"localhost", "app.localhost"}}
	public := document.Deployment{Mode: "Production", FrontendHosts: []string{"app.acme.example"}}
	with := func(d document.Deployment, pages document.Pages) document.Deployment {
		d.Pages = &pages
		return d
	}
	for name, tt := range map[string]struct {
		d          document.Deployment
		host, want string
		tls        bool
	}{
		"the first host":                   {public, "other.acme.example:8443", "https://app.acme.example", false},
		"localhost at the request's port":  {staging, "app.localhost:8081", "http://localhost:8081", false},
		"localhost without a port":         {staging, "localhost", "http://localhost", false},
		"localhost over TLS":               {staging, "localhost:8443", "https://localhost", true},
		"a port that would lead elsewhere": {staging, "localhost:80@evil.example", "http://localhost", false},
		"a port that is no port":           {staging, "localhost:99999", "http://localhost", false},
		"pages of the tenant's own":        {with(public, document.Pages{Disabled: true, URL: "https://me.acme.example"}), "app.acme.example", "https://me.acme.example", false},
		"no pages":                         {with(public, document.Pages{Disabled: true}), "app.acme.example", "", false},
		"no host":                          {document.Deployment{Mode: "Production"}, "app.acme.example", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("GET", "/", nil)
			r.Host = tt.host
			if tt.tls {
				r.TLS = &tls.ConnectionState{}
			}
			if got := Base(&tt.d, r); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
