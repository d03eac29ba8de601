package identitydeployment

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/people"
)

// serving returns a deployment with passkey settings, hosts and further origins.
func serving(passkey *v1alpha1.PasskeySettings, hosts []v1alpha1.Hostname, origins ...v1alpha1.Origin) *v1alpha1.IdentityDeployment {
	return &v1alpha1.IdentityDeployment{Spec: v1alpha1.IdentityDeploymentSpec{
		FrontendHosts: hosts, AllowedOrigins: origins, SignIn: &v1alpha1.SignInSettings{Passkey: passkey},
	}}
}

func TestPasskeysReadyNamesEveryObstacle(t *testing.T) {
	of := func(id v1alpha1.Hostname) *v1alpha1.PasskeySettings {
		return &v1alpha1.PasskeySettings{RelyingPartyID: &id}
	}
	six := []v1alpha1.Origin{"https://a.example", "https://b.example", "https://c.example", "https://d.example", "https://e.example"}
	for name, tc := range map[string]struct {
		deployment *v1alpha1.IdentityDeployment
		want       string // status and reason, "" for no condition
		has        []string
		origins    string
	}{
		"no end users":                     {serving(nil, nil), "", nil, ""},
		"declared without a host":          {serving(&v1alpha1.PasskeySettings{Enabled: ptr.To(true)}, nil), "False/NoFrontendHost", []string{"add a host to spec.frontendHosts"}, ""},
		"disabled without a host":          {serving(&v1alpha1.PasskeySettings{Enabled: ptr.To(false)}, nil), "", nil, ""},
		"disabled":                         {serving(&v1alpha1.PasskeySettings{Enabled: ptr.To(false)}, []v1alpha1.Hostname{"acme.example"}), "", nil, ""},
		"one host":                         {serving(nil, []v1alpha1.Hostname{"acme.example"}), "True/Usable", []string{"belong to acme.example"}, "https://acme.example"},
		"everything within":                {serving(of("acme.example"), []v1alpha1.Hostname{"login.acme.example"}, "https://acme.example"), "True/Usable", nil, "https://login.acme.example https://acme.example"},
		"a related origin that is served":  {serving(of("acme.example"), []v1alpha1.Hostname{"acme.example"}, "https://shop.example"), "True/Usable", nil, "https://acme.example https://shop.example"},
		"a sibling of the first host":      {serving(nil, []v1alpha1.Hostname{"login.acme.example", "my.acme.example"}), "True/Usable", nil, "https://login.acme.example https://my.acme.example"},
		"a development server":             {serving(nil, []v1alpha1.Hostname{"acme.example"}, "http://localhost:3000"), "True/Usable", []string{"except http://localhost:3000"}, "https://acme.example http://localhost:3000"},
		"a development server, no host":    {serving(of("acme.example"), []v1alpha1.Hostname{"login.acme.example"}, "http://localhost:3000"), "True/Usable", []string{"except http://localhost:3000"}, "https://login.acme.example http://localhost:3000"},
		"a related origin, served by none": {serving(of("acme.example"), []v1alpha1.Hostname{"login.acme.example"}, "https://shop.example"), "False/RelatedOriginsElsewhere", []string{"such as https://shop.example", "https://acme.example/.well-known/webauthn", `{"origins":["https://login.acme.example","https://shop.example"]}`}, "https://login.acme.example https://shop.example"},
		"five labels":                      {serving(nil, []v1alpha1.Hostname{"acme.example"}, six[:4]...), "True/Usable", nil, "https://acme.example https://a.example https://b.example https://c.example https://d.example"},
		"six labels":                       {serving(nil, []v1alpha1.Hostname{"acme.example"}, six...), "False/TooManyRelatedOrigins", []string{"6 registrable labels (acme, a, b, c, d, e)", "the first 5"}, "https://acme.example https://a.example https://b.example https://c.example https://d.example https://e.example"},
		"six hosts of one domain":          {serving(of("acme.example"), []v1alpha1.Hostname{"a.acme.example", "b.acme.example", "c.acme.example", "d.acme.example", "e.acme.example", "f.acme.example"}), "True/Usable", nil, "https://a.acme.example https://b.acme.example https://c.acme.example https://d.acme.example https://e.acme.example https://f.acme.example"},
	} {
		t.Run(name, func(t *testing.T) {
			passkeys := translation.PasskeysOf(tc.deployment, translation.LocalFrontend{})
			got, message := "", ""
			for _, c := range passkeysReady(passkeys) {
				got, message = got+string(c.Status)+"/"+c.Reason, c.Message
			}
			if got != tc.want {
				t.Fatalf("got %s (%s), want %s", got, message, tc.want)
			}
			for _, part := range tc.has {
				if !strings.Contains(message, part) {
					t.Errorf("%q is not in %q", part, message)
				}
			}
			origins := ""
			if status := passkeyStatus(passkeys); status != nil {
				origins = strings.Join(status.Origins, " ")
			}
			if origins != tc.origins {
				t.Errorf("origins: got %s, want %s", origins, tc.origins)
			}
		})
	}
}

func TestOriginsOfThisMachineHaveTheSchemeAndPortOfTheServer(t *testing.T) {
	deployment := serving(nil, []v1alpha1.Hostname{"localhost"}, "http://localhost:3000")
	deployment.Spec.Mode = ptr.To(v1alpha1.DeploymentModeStaging)
	status := passkeyStatus(translation.PasskeysOf(deployment, translation.LocalFrontend{Scheme: "http", Port: "8081"}))
	if got, want := status.RelyingPartyID+" "+strings.Join(status.Origins, " "), "localhost http://localhost:8081 http://localhost:3000"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRelyingPartyChangedNamesRelyingPartiesAndCounts(t *testing.T) {
	count := func(id string, n int64) people.RelyingPartyCount {
		return people.RelyingPartyCount{RelyingParty: id, Passkeys: n}
	}
	if got := relyingPartyChanged("acme.example", nil); got != nil {
		t.Errorf("got %v", got)
	}
	for _, tc := range []struct {
		relyingParty string
		others       []people.RelyingPartyCount
		has          []string
	}{
		{"new.example", []people.RelyingPartyCount{count("old.example", 3)}, []string{"3 passkeys", "(3 of old.example)", "the relying party is new.example now", "set spec.signIn.passkey.relyingPartyID to the previous value"}},
		{"", []people.RelyingPartyCount{count("old.example", 3)}, []string{"no relying party now"}},
		{"n", []people.RelyingPartyCount{count("a", 1), count("b", 2), count("c", 3), count("d", 4), count("e", 5), count("f", 6), count("g", 7)},
			[]string{"28 passkeys", "5 of e, those of 2 more)"}},
	} {
		got := relyingPartyChanged(tc.relyingParty, tc.others)
		if len(got) != 1 || got[0].Status != metav1.ConditionTrue || got[0].Type != v1alpha1.ConditionRelyingPartyChanged || got[0].Reason != v1alpha1.ReasonOtherPasskeys {
			t.Fatalf("got %v", got)
		}
		for _, part := range tc.has {
			if !strings.Contains(got[0].Message, part) {
				t.Errorf("%q is not in %q", part, got[0].Message)
			}
		}
	}
}

func TestPublicSuffixIsRefusedAsRelyingParty(t *testing.T) {
	for id, fault := range map[v1alpha1.Hostname]string{"acme.example": "", "localhost": "", "co.uk": "public suffix", "0.0.1": "no domain name"} {
		err := check(serving(&v1alpha1.PasskeySettings{RelyingPartyID: &id}, []v1alpha1.Hostname{"a." + id}), nil)
		if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault) || !strings.Contains(err.Error(), relyingPartyField)) {
			t.Errorf("%s: %v, want %q", id, err, fault)
		}
	}
}
