package connections

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/store/people"
)

func TestOnlyOwnersAndBackendsReplaceKeys(t *testing.T) {
	t.Parallel()
	owner, member := &people.Member{Owner: true}, &people.Member{}
	for name, tc := range map[string]struct {
		scope Scope
		want  bool
	}{
		"owner":             {Scope{Admin: owner}, true},
		"member":            {Scope{Admin: member}, false},
		"link of an owner":  {Scope{Admin: owner, Link: &people.SetupLink{}}, false},
		"backend":           {Scope{Backend: true}, true},
		"link of a backend": {Scope{Link: &people.SetupLink{}}, false},
	} {
		if got := tc.scope.replacesKeys(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestKeysOfADeploymentAreGeneratedInTurn(t *testing.T) {
	keys := NewKeys(time.Now)
	done, err := keys.slots.Begin(t.Context(), egress.Asker{Deployment: "acme/home"})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keys.Generate(ended, "acme/home", "acme.example", time.Now()); !errors.Is(err, ErrKeysBusy) {
		t.Errorf("a second generation of the deployment: %v", err)
	}
	if _, err := keys.Generate(t.Context(), "globex/home", "globex.example", time.Now()); err != nil {
		t.Errorf("another deployment waits: %v", err)
	}
	done()
	if key, err := keys.Generate(t.Context(), "acme/home", "acme.example", time.Now()); err != nil || key.Private == nil {
		t.Errorf("after that: %v", err)
	}
}
