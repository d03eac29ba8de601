package agents

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
)

func TestStreamsAreBounded(t *testing.T) {
	take := func(s *streams, deployment string, n int) (func(), bool) {
		_, giveBack, taken := s.take(deployment, principalOf(deployment, &caller.Caller{Kind: caller.KindKey, ID: fmt.Sprint(n)}))
		return giveBack, taken
	}
	s := newStreams()
	var giveBack []func()
	for n := range streamsOfPrincipal {
		one, taken := take(s, "acme/main", 0)
		if !taken {
			t.Fatalf("stream %d of a principal is refused", n)
		}
		giveBack = append(giveBack, one)
	}
	if _, taken := take(s, "acme/main", 0); taken {
		t.Error("a principal has more streams than its share")
	}
	if one, taken := take(s, "other/main", 0); !taken {
		t.Error("a principal of another deployment is refused")
	} else {
		giveBack = append(giveBack, one)
	}
	for n := streamsOfPrincipal; n < streamsOfDeployment; n++ {
		one, taken := take(s, "acme/main", n)
		if !taken {
			t.Fatalf("stream %d of a deployment is refused", n)
		}
		giveBack = append(giveBack, one)
	}
	if _, taken := take(s, "acme/main", -1); taken {
		t.Error("a deployment has more streams than its share")
	}
	for n := s.open; n < streamsOfServer-streamsOfServer/4; n++ {
		one, taken := take(s, fmt.Sprintf("tenant-%d/main", n/100), n)
		if !taken {
			t.Fatalf("stream %d of the server is refused", n)
		}
		giveBack = append(giveBack, one)
	}
	if _, taken := take(s, "tenant-7/main", -1); taken {
		t.Error("a deployment with many streams takes those of deployments with few")
	}
	for n := s.open; n < streamsOfServer; n++ {
		one, taken := take(s, fmt.Sprintf("tenant-%d/main", n), n)
		if !taken {
			t.Fatalf("stream %d of the server is refused", n)
		}
		giveBack = append(giveBack, one)
	}
	if _, taken := take(s, "late/main", 0); taken {
		t.Error("the server has more streams than its bound")
	}
	if s.exhausted != 4 {
		t.Errorf("%d refusals are counted", s.exhausted)
	}
	for _, one := range giveBack {
		one()
	}
	if s.open != 0 || len(s.principals) != 0 || len(s.deployments) != 0 {
		t.Errorf("after the end of all streams, %+v are left", s)
	}
}
