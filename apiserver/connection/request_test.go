package connection

import (
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

func TestResponsesThatAreNotWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxParameter)
	for query, want := range map[string]bool{
		"state=s&code=c&iss=i":                            true,
		"state=s&error=access_denied":                     true,
		"state=s&code=" + long:                            true,
		"state=s&code=" + long + "x":                      false,
		"state=s":                                         false,
		"code=c":                                          false,
		"state=s&code=c&error=access_denied":              false,
		"state=s&state=t&code=c":                          false,
		"state=s&code=c&code=d":                           false,
		"state=s&code=c&iss=i&iss=j":                      false,
		"state=s&code=c&iss=i&iss=i":                      false,
		"state=s&code=c&user=u&user=v":                    false,
		"state=s&error=e&error_description=" + long + "x": false,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if r, got := ReadResponse(values); got != want || got && r.State != "s" {
			t.Errorf("%.60s: %+v, %t", query, r, got)
		}
	}
}

func TestIssuersOfResponses(t *testing.T) {
	t.Parallel()
	const several, one = microsoftOrigin + "{tenantid}/v2.0", microsoftOrigin + testTenant + "/v2.0"
	for name, tc := range map[string]struct {
		kind, sent, issuer string
		promised, want     bool
	}{
		"the issuer":                      {TypeOIDC, testIssuer, testIssuer, true, true},
		"... that is not promised":        {TypeOIDC, testIssuer, testIssuer, false, true},
		"another issuer":                  {TypeOIDC, testIssuer + "/", testIssuer, true, false},
		"... that is not promised either": {TypeOIDC, "https://evil.example", testIssuer, false, false},
		"absent":                          {TypeOIDC, "", testIssuer, false, true},
		"absent, although promised":       {TypeOIDC, "", testIssuer, true, false},
		"absent, of no issuer":            {TypeOIDC, "", "", true, false},
		"a tenant of several":             {TypeMicrosoft, one, several, true, true},
		"a tenant that is the one":        {TypeMicrosoft, one, one, true, true},
		"another tenant":                  {TypeMicrosoft, microsoftOrigin + testObject + "/v2.0", one, true, false},
		"another provider":                {TypeMicrosoft, testIssuer, several, true, false},
		"a tenant for another type":       {TypeOIDC, one, several, true, false},
	} {
		err := CheckIssuer(&document.Connection{Type: tc.kind}, Response{Issuer: tc.sent}, tc.issuer, tc.promised)
		if tc.want {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		expectFault(t, name, ReasonResponseIssuer, func() error { return err })
	}
}
