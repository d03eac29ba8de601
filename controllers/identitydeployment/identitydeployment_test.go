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

func TestM5AnAudienceThatCardeaNamesIsItsDeploymentsAlone(t *testing.T) {
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

func TestM5Grants(t *testing.T) {
	const list = "app.acme.example, *.Shop.example\nwww.example.com,*."
	for host, want := range map[string]bool{
		"app.acme.example":     true,
		"APP.acme.example":     true,
		"www.acme.example":     false,
		"a.shop.example":       true,
		"a.b.shop.example":     true,
		"shop.example":         false,
		"evilshop.example":     false,
		".shop.example":        false,
		"www.example.com":      true,
		"www.example.com.evil": false,
		"":                     false,
	} {
		if got := grants(list, host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
	if grants("", "app.acme.example") {
		t.Error("no list grants nothing")
	}
}

func TestL11PeopleFromBeforeTheDeployment(t *testing.T) {
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
		"nobody":                         {0, false},
		"somebody of before":             {of(created.AddDate(0, -1, 0)), true},
		"somebody of after":              {of(created.Add(time.Second)), false},
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
