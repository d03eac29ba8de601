package connections

import (
	"testing"

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
