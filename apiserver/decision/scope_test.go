package decision

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

// neighbor adds another tenant with an app of the same slug, and returns that tenant's key, which has every permission.
func (w *world) neighbor() string {
	const other = "rivals/rival"
	w.Put(v1alpha1.KindIdentityDeployment, "rival", other, "", document.Deployment{DisplayName: "Rival"})
	w.Put(v1alpha1.KindAPIAuthApp, "shop", other, "shop", document.APIAuthApp{Slug: "shop", Name: "Shop", Permissions: []string{"*"}, Active: true})
	key, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindAPIKey, "intruder", other, "", document.APIKey{
		App: "shop", Name: "Intruder", Permissions: []string{"*"},
		Verifiers: []document.Verifier{{ID: key.ID(), Digest: key.Digest(), Last4: key.Last4()}},
	})
	w.Eventually("the neighbor is served", func() bool {
		_, found := w.api.Snapshots.Current().APIKey(key.ID())
		return found && w.api.Snapshots.Current().Deployments() == 2
	})
	return key.Plain()
}

// acmeID returns the id of apps/acme.
func (w *world) acmeID() string {
	entry, _ := w.api.Snapshots.Current().Deployment(tenant)
	return ids.Format(entry.ID)
}

func TestForwardAdmitsOnlyTheNamedDeployment(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AnyDeployment = true })
	intruder, id := w.neighbor(), w.acmeID()
	for name, tc := range map[string]struct {
		path, key string
		want      int
	}{
		"own key, by id":                        {"/v1/forward/caddy?deployment=" + id, w.plain, 200},
		"own key, by name":                      {"/v1/forward/caddy?deployment=apps/acme", w.plain, 200},
		"own key, prefix of the id":             {"/deployments/" + id + "/v1/forward/caddy", w.plain, 200},
		"own key, prefix of the name":           {"/deployments/apps/acme/v1/forward/caddy", w.plain, 200},
		"own key, both":                         {"/deployments/apps/acme/v1/forward/caddy?deployment=" + id, w.plain, 200},
		"foreign key, by id":                    {"/v1/forward/caddy?deployment=" + id, intruder, 401},
		"foreign key, by name":                  {"/v1/forward/caddy?deployment=apps/acme", intruder, 401},
		"foreign key, prefix of the id":         {"/deployments/" + id + "/v1/forward/caddy", intruder, 401},
		"foreign key, prefix of the name":       {"/deployments/apps/acme/v1/forward/caddy", intruder, 401},
		"foreign key, unnamed, waived":          {"/v1/forward/caddy", intruder, 200},
		"two deployments":                       {"/deployments/apps/acme/v1/forward/caddy?deployment=rivals/rival", w.plain, 400},
		"two deployments, as nginx understands": {"/deployments/apps/acme/v1/forward/nginx?deployment=rivals/rival", w.plain, 403},
		"the same option twice":                 {"/v1/forward/caddy?deployment=apps/acme&deployment=apps/acme", w.plain, 400},
		"an unknown deployment":                 {"/v1/forward/caddy?deployment=apps/other", w.plain, 401},
		"no name of a deployment":               {"/v1/forward/caddy?deployment=acme", w.plain, 400},
		"an empty name":                         {"/v1/forward/caddy?deployment=", w.plain, 400},
		"an unserved path below a deployment":   {"/deployments/apps/acme/v1/forward/other", w.plain, 404},
		"a deployment twice":                    {"/deployments/apps/acme/deployments/apps/acme/v1/forward/caddy", w.plain, 404},
		"the app":                               {"/deployments/apps/acme/v1/forward/caddy?app=other&app=shop", w.plain, 200},
		"another app":                           {"/deployments/apps/acme/v1/forward/caddy?app=other", w.plain, 401},
		"the kind":                              {"/deployments/apps/acme/v1/forward/caddy?principal=session_token&principal=api_key", w.plain, 200},
		"another kind":                          {"/deployments/apps/acme/v1/forward/caddy?principal=session_token", w.plain, 401},
		"no kind":                               {"/deployments/apps/acme/v1/forward/caddy?principal=keys", w.plain, 400},
	} {
		headers := []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Original-Method: GET", "X-Original-Uri: /", "Authorization: Bearer " + tc.key}
		if a := w.ask("GET", tc.path, "", headers...); a.StatusCode != tc.want {
			t.Errorf("%s: %d %v, want %d", name, a.StatusCode, a.body, tc.want)
		}
	}
	// The path after Envoy's prefix is the client's, in any form.
	if a := w.ask("GET", "/deployments/apps/acme/v1/forward/envoy/deployments/rivals/rival/v1/things", "", "Authorization: Bearer "+intruder); a.StatusCode != 401 {
		t.Errorf("foreign key by Envoy's HTTP: %d", a.StatusCode)
	}
	if a := w.ask("GET", "/deployments/apps/acme/v1/forward/envoy/v1/things", "", "Authorization: Bearer "+w.plain); a.StatusCode != 200 {
		t.Errorf("own key by Envoy's HTTP: %d %v", a.StatusCode, a.body)
	}
}

func TestEnvoyPathBelowADeploymentIsTheClients(t *testing.T) {
	w := newWorld(t)
	w.limit(scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 1, Endpoints: []string{"/v1/things"}})
	ask := func(path string) int {
		return w.ask("GET", path, "", "Authorization: Bearer "+w.plain).StatusCode
	}
	if first, second := ask("/deployments/apps/acme/v1/forward/envoy/v1/things"), ask("/v1/forward/envoy/v1/things"); first != 200 || second != 429 {
		t.Errorf("got %d and %d: both are requests of /v1/things", first, second)
	}
}

func TestCheckAdmitsOnlyTheNamedDeployment(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AnyDeployment = true })
	intruder, id := w.neighbor(), w.acmeID()
	check := func(prefix, key, more string) answer {
		return w.ask(http.MethodPost, prefix+"/v1/authz/check", `{"principal":{"type":"api_key","value":"`+key+`"},"method":"GET","resource":"/"`+more+`}`)
	}
	unknown := check("/deployments/"+id, "ck_000000000000000000000000000000000000000000000000", "")
	for name, tc := range map[string]struct {
		prefix, key, more string
		want              int
	}{
		"own, member":                {"", w.plain, `,"deployment":"` + id + `"`, 200},
		"own, member, escaped":       {"", w.plain, `,"deployment":"apps\/acme"`, 200},
		"own, prefix":                {"/deployments/apps/acme", w.plain, "", 200},
		"own, both":                  {"/deployments/apps/acme", w.plain, `,"deployment":"` + id + `"`, 200},
		"own, app":                   {"/deployments/apps/acme", w.plain, `,"app":"shop"`, 200},
		"own, another app":           {"/deployments/apps/acme", w.plain, `,"app":"other"`, 401},
		"foreign, member":            {"", intruder, `,"deployment":"` + id + `"`, 401},
		"foreign, prefix":            {"/deployments/" + id, intruder, "", 401},
		"two deployments":            {"/deployments/apps/acme", w.plain, `,"deployment":"rivals/rival"`, 400},
		"no name of a deployment":    {"", w.plain, `,"deployment":"acme"`, 400},
		"not even a string":          {"", w.plain, `,"deployment":7`, 400},
		"an empty app":               {"", w.plain, `,"app":""`, 400},
		"foreign, remembered before": {"/deployments/" + id, intruder, "", 401},
	} {
		a := check(tc.prefix, tc.key, tc.more)
		if a.StatusCode != tc.want {
			t.Errorf("%s: %d %v, want %d", name, a.StatusCode, a.body, tc.want)
		}
		if tc.want == 401 && a.body["message"] != unknown.body["message"] {
			t.Errorf("%s: %v: the refusal differs from that of an unknown key", name, a.body)
		}
	}
}

func TestDecisionsRequireDeploymentWhereSeveralAreServed(t *testing.T) {
	w := newWorld(t)
	forward := []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "Authorization: Bearer " + w.plain}
	if a := w.check(w.plain, "GET", "/"); a.StatusCode != 200 {
		t.Fatalf("one deployment: %d %v", a.StatusCode, a.body)
	}
	w.neighbor()
	envoy := w.envoy()
	headers := map[string]string{"x-api-key": w.plain}
	if a := w.check(w.plain, "GET", "/"); a.StatusCode != 400 {
		t.Errorf("check: %d %v", a.StatusCode, a.body)
	}
	for path, want := range map[string]int{
		"/v1/forward/caddy": 400, "/v1/forward/caddy?unavailable=allow": 400, "/v1/forward/caddy?deny=403": 403, "/v1/forward/caddy?deployment=apps/acme": 200,
	} {
		if a := w.ask("GET", path, "", forward...); a.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, a.StatusCode, want)
		}
	}
	out, err := envoy.Check(t.Context(), asked("GET", "/", "203.0.113.1", headers, nil))
	w.Must(err)
	if codes.Code(out.GetStatus().GetCode()) != codes.InvalidArgument {
		t.Errorf("Envoy: %v", out)
	}
	if a := w.check(w.plain, "GET", "/", `,"deployment":"apps/acme"`); a.StatusCode != 200 {
		t.Errorf("check that names one: %d %v", a.StatusCode, a.body)
	}
}

func TestEnvoyAdmitsOnlyTheNamedDeployment(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AnyDeployment = true })
	intruder := w.neighbor()
	client := w.envoy()
	for name, tc := range map[string]struct {
		key        string
		extensions map[string]string
		want       codes.Code
	}{
		"own":                     {w.plain, map[string]string{"deployment": "apps/acme"}, codes.OK},
		"own, by id":              {w.plain, map[string]string{"deployment": w.acmeID(), "app": "other, shop", "principal": "api_key"}, codes.OK},
		"foreign":                 {intruder, map[string]string{"deployment": "apps/acme"}, codes.Unauthenticated},
		"another app":             {w.plain, map[string]string{"deployment": "apps/acme", "app": "other"}, codes.Unauthenticated},
		"another kind":            {w.plain, map[string]string{"deployment": "apps/acme", "principal": "session_token,oauth_access_token"}, codes.Unauthenticated},
		"no kind":                 {w.plain, map[string]string{"principal": "key"}, codes.InvalidArgument},
		"no name of a deployment": {w.plain, map[string]string{"deployment": "acme"}, codes.InvalidArgument},
	} {
		out, err := client.Check(t.Context(), asked("GET", "/", "203.0.113.1", map[string]string{"x-api-key": tc.key}, tc.extensions))
		if err != nil || codes.Code(out.GetStatus().GetCode()) != tc.want {
			t.Errorf("%s: %v %v, want %v", name, out, err, tc.want)
		}
	}
}

// A credential is only accepted as its own kind, whether or not it is cached.
func TestCredentialIsOnlyAcceptedAsItsKind(t *testing.T) {
	w := newWorld(t)
	token := w.signing()
	expires := w.Clock.Now().Add(time.Hour)
	credentials := map[string]string{
		typeAPIKey: w.given(func(row *people.APIKey) { row.ExpiresAt = expires }), typeSessionToken: token(func(*jwt.Claims) {}),
	}
	ask := func(kind, value string) answer {
		return w.ask("POST", "/v1/authz/check", `{"principal":{"type":"`+kind+`","value":"`+value+`"},"method":"GET","resource":"/free`+strconv.Itoa(len(kind))+`"}`)
	}
	for _, round := range []string{"first seen", "seen before"} {
		for of, value := range credentials {
			for _, as := range kindNames {
				if as == of {
					continue
				}
				if a := ask(as, value); a.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s: %s as %s: %d %v", round, of, as, a.StatusCode, a.body)
				}
			}
		}
		for of, value := range credentials {
			if a := ask(of, value); a.StatusCode != 200 || a.body["allowed"] != true && round == "first seen" {
				t.Errorf("%s: %s: %d %v", round, of, a.StatusCode, a.body)
			}
		}
	}
}

func TestRestrictedKeyStaysRestricted(t *testing.T) {
	w := newWorld(t)
	bound := w.declare("bound", func(k *document.APIKey) { k.AllowedCIDRs = []string{"203.0.113.0/24"} })
	ask := func(kind, client string) int {
		return w.ask("POST", "/v1/authz/check", `{"principal":{"type":"`+kind+`","value":"`+bound+`"},"method":"GET","resource":"/","client_ip":"`+client+`"}`).StatusCode
	}
	w.Eventually("the key is accepted from its network", func() bool { return ask(typeAPIKey, "203.0.113.9") == 200 })
	for _, kind := range kindNames {
		if got := ask(kind, "198.51.100.1"); got != http.StatusUnauthorized {
			t.Errorf("as %s from elsewhere: %d", kind, got)
		}
	}
}

func TestExplainBelowAnotherDeploymentIsUnauthenticated(t *testing.T) {
	w := newWorld(t)
	w.neighbor()
	reader := w.declare("reader", func(k *document.APIKey) { k.Permissions = []string{explainPermission} })
	w.app(func(app *document.APIAuthApp) { app.Permissions = append(app.Permissions, explainPermission) })
	key := w.plain[3:15]
	w.Eventually("an explanation is answered", func() bool {
		return w.ask("GET", "/v1/authz/explain?method=GET&resource=/&key_id="+key, "", "Authorization: Bearer "+reader).StatusCode == 200
	})
	for path, want := range map[string]int{
		"/deployments/apps/acme/v1/authz/explain?method=GET&resource=/&key_id=":                200,
		"/v1/authz/explain?method=GET&resource=/&deployment=apps/acme&key_id=":                 200,
		"/deployments/rivals/rival/v1/authz/explain?method=GET&resource=/&key_id=":             401,
		"/v1/authz/explain?method=GET&resource=/&deployment=rivals/rival&key_id=":              401,
		"/deployments/apps/acme/v1/authz/explain?method=GET&resource=/&deployment=a/b&key_id=": 400,
	} {
		if a := w.ask("GET", path+key, "", "Authorization: Bearer "+reader); a.StatusCode != want {
			t.Errorf("%s: %d %v, want %d", path, a.StatusCode, a.body, want)
		}
	}
}

func TestDeclaredKeyDoesNotHideRuntimeKey(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AnyDeployment = true })
	plain := w.given(func(*people.APIKey) {})
	id := strings.Split(plain, "_")[1][:12]
	other, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindIdentityDeployment, "rival", "rivals/rival", "", document.Deployment{DisplayName: "Rival"})
	w.Put(v1alpha1.KindAPIAuthApp, "shop", "rivals/rival", "shop", document.APIAuthApp{Slug: "shop", Name: "Shop", Permissions: []string{"*"}, Active: true})
	w.Put(v1alpha1.KindAPIKey, "twin", "rivals/rival", "", document.APIKey{
		App: "shop", Name: "Twin", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: id, Digest: other.Digest(), Last4: "last"}},
	})
	w.Eventually("the declared twin is served", func() bool {
		_, found := w.api.Snapshots.Current().APIKey(id)
		return found
	})
	for range 2 {
		if a := w.check(plain, "GET", "/", `,"deployment":"apps/acme"`); a.StatusCode != 200 || a.body["allowed"] != true {
			t.Errorf("%d %v", a.StatusCode, a.body)
		}
	}
}
