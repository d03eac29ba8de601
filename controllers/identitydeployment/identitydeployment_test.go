package identitydeployment

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/ids"
)

func TestAnAudienceThatCardeaNamesIsItsDeploymentsAlone(t *testing.T) {
	for audience, refused := range map[string]bool{
		"cardea:bank:prod":     true,
		"cardea:mallory:other": true,
		"cardea:mallory:evil":  false,
		"cardea:":              true,
		"api.example.com":      false,
		"cardea":               false,
	} {
		d := &v1alpha1.IdentityDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "mallory", Name: "evil"}}
		d.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "a"}, {Name: "b"}}
		d.Spec.JWTIssuers[1].Audiences = append(d.Spec.JWTIssuers[1].Audiences, v1alpha1.Audience(audience))
		err := check(d, nil)
		var terminal *engine.TerminalError
		if errors.As(err, &terminal) != refused {
			t.Errorf("%q: %v, want refused %v", audience, err, refused)
		}
	}
}

func TestAnAccentColourCarriesWhiteText(t *testing.T) {
	for colour, want := range map[v1alpha1.AccentColor]string{
		"#1d4ed8": "",
		"#767676": "",
		"#777777": "spec.pages.accentColor: the contrast of white text on #777777 is 4.47, and must be at least 4.5: choose a darker color",
		"#ffff00": "spec.pages.accentColor: the contrast of white text on #ffff00 is 1.07, and must be at least 4.5: choose a darker color",
		"blue":    "spec.pages.accentColor: \"blue\" is not a colour: write # and six hexadecimal digits, such as #1d4ed8",
	} {
		d := &v1alpha1.IdentityDeployment{}
		d.Spec.Pages = &v1alpha1.PagesSettings{AccentColor: &colour}
		err := check(d, nil)
		var terminal *engine.TerminalError
		if got := errors.As(err, &terminal); got != (want != "") || got && terminal.Message != want {
			t.Errorf("%s: %v, want %q", colour, err, want)
		}
	}
	for _, pages := range []*v1alpha1.PagesSettings{nil, {}} {
		d := &v1alpha1.IdentityDeployment{}
		d.Spec.Pages = pages
		if err := check(d, nil); err != nil {
			t.Errorf("%v: %v", pages, err)
		}
	}
}

func TestPeopleFromBeforeTheDeployment(t *testing.T) {
	created := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	of := func(at time.Time) int64 {
		id, err := ids.New(at, zeros{})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for name, tc := range map[string]struct {
		user int64
		want bool
	}{
		"no user":                        {0, false},
		"a user from before":             {of(created.AddDate(0, -1, 0)), true},
		"a user from after":              {of(created.Add(time.Second)), false},
		"a server whose clock is behind": {of(created.Add(-5 * time.Second)), false},
	} {
		if got := isFormer(tc.user, created); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
