package isolation

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/cardea-iam/cardea/test/traffic"
)

// endpointsOfProvider are the endpoints of a provider without discovery, below a path of the hostile APIs.
const endpointsOfProvider = "{authorizationURL: %[1]s/authorize, tokenURL: %[1]s/token, jwksURL: %[1]s/jwks, userinfoURL: %[1]s/userinfo}"

// providers returns the manifests of connections to hostile identity providers: of each kind one that is discovered,
// and one with declared endpoints, by which a sign-in begins and whose token endpoint is hostile.
func (t *tools) providers(namespace string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `---
apiVersion: v1
kind: Secret
metadata: {name: provider, namespace: %s, labels: {iam.cardea.dev/deployment: main}}
stringData: {client-secret: secret}
`, namespace)
	for _, name := range hostile {
		for _, kind := range []string{"discovered", "declared"} {
			issuer, endpoints := t.URL+"/"+name, ""
			if kind == "declared" {
				endpoints = ", endpoints: " + fmt.Sprintf(endpointsOfProvider, issuer)
			}
			fmt.Fprintf(&out, `---
apiVersion: iam.cardea.dev/v1alpha1
kind: Connection
metadata: {name: %[2]s-%[3]s, namespace: %[1]s}
spec:
  deploymentRef: {name: main}
  slug: %[2]s-%[3]s
  type: OIDC
  client: {clientID: cardea, clientSecretRef: {name: provider, key: client-secret}}
  oidc: {issuer: "%[4]s"%[5]s}
`, namespace, kind, name, issuer, endpoints)
		}
	}
	return out.String()
}

// hostileProviders begins and completes sign-ins by hostile providers, and looks up domains, all from one network.
func (a *attack) hostileProviders() error {
	config, err := a.Visit(a.Server(), http.MethodGet, "/auth/config", traffic.Address(21, 0), "", nil)
	if err != nil {
		return err
	}
	data, _ := config.JSON["data"].(map[string]any)
	offered, _ := data["connections"].([]any)
	if len(offered) < len(hostile) {
		return fmt.Errorf("%d connections are offered: %.300s", len(offered), config.Raw)
	}
	from := traffic.Address(21, 1)
	before := a.in.site.tools.hostile.Load()
	a.flood(500, func(n int) {
		id, _ := offered[n/3%len(offered)].(map[string]any)["id"].(string)
		switch n % 3 {
		case 0:
			body := fmt.Sprintf(`{"email":"somebody%d@globex.example"}`, n)
			_, _ = a.Visit(a.Server(), http.MethodPost, "/auth/sso/discover", from, "application/json", strings.NewReader(body)) // most are refused
		case 1:
			a.completeSSO(id, from, n)
		default:
			a.completeSSO(id, traffic.Address(22, n), n)
		}
	})
	if a.in.site.tools.hostile.Load() == before {
		a.breached(errors.New("no request reached a hostile provider: the attack shows nothing"))
	}
	return nil
}

// completeSSO begins a sign-in and posts a response with an invented code, which Cardea redeems at the provider.
func (a *attack) completeSSO(connection, from string, n int) {
	answer, err := a.Visit(a.Server(), http.MethodPost, "/auth/sso", from, "application/json", strings.NewReader(`{"connection_id":"`+connection+`"}`))
	if err != nil || answer.Status != http.StatusOK {
		return
	}
	data, _ := answer.JSON["data"].(map[string]any)
	address, _ := data["authorization_url"].(string)
	to, err := url.Parse(address)
	if err != nil {
		return
	}
	form := url.Values{"state": {to.Query().Get("state")}, "code": {fmt.Sprint(n)}}
	got, err := a.Visit(a.Server(), http.MethodPost, "/sso/"+connection+"/callback", from, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
	if err == nil && got.Status < http.StatusBadRequest {
		a.breached(fmt.Errorf("a response without a token of the provider is accepted: %.300s", got.Raw))
	}
}
