package agents

import "testing"

func TestCallsWaitForTheirOwnSlotsOnly(t *testing.T) {
	s := newSlots()
	full, other := []slot{{name: "tool full", most: 1}, {name: "server", most: 9}}, []slot{{name: "tool other", most: 1}, {name: "server", most: 9}}
	if s.try(full) != nil || s.try(other) != nil {
		t.Fatal("free slots are not taken")
	}
	freed := s.try(full)
	if freed == nil {
		t.Fatal("a full slot is taken")
	}
	s.giveBack(other)
	select {
	case <-freed:
		t.Error("a call waits for slots of another tool")
	default:
	}
	s.giveBack(full)
	select {
	case <-freed:
	default:
		t.Error("a call does not hear that its slot is free")
	}
	if s.try(full) != nil {
		t.Error("a free slot is not taken")
	}
	if s.giveBack(full); len(s.used) != 0 || len(s.freed) != 0 {
		t.Errorf("left are %v and %v", s.used, s.freed)
	}
}

func TestLargeResponsesHaveRoomOfTheirDeployment(t *testing.T) {
	s := newSlots()
	large := responseRoom("acme/staging", 1<<20)
	for n := range responsesOfDeployment / formsOfResponse >> 20 {
		if s.try(large) != nil {
			t.Fatalf("response %d has no room", n)
		}
	}
	if s.try(large) == nil || s.try(responseRoom("acme/staging", 1)) == nil {
		t.Error("a deployment has more room than its share")
	}
	if s.try(responseRoom("rival/rival", 1<<30)) != nil {
		t.Error("a response alone has no room")
	}
	s.giveBack(large)
	if s.try(responseRoom("acme/staging", 1)) != nil {
		t.Error("room that was given back is not free")
	}
}

func TestFewDeploymentsCannotTakeAllSlots(t *testing.T) {
	s := newSlots()
	of := func(deployment string) []slot {
		return []slot{{name: "deployment " + deployment, most: 128}, {name: "server", most: 512, of: "deployment " + deployment}}
	}
	taken := 0
	for _, deployment := range []string{"a", "b", "c", "d", "e"} {
		for s.try(of(deployment)) == nil {
			taken++
		}
	}
	if taken != 3*128+2*32 { // three deployments have three quarters, and each other one gets its first slots
		t.Errorf("five deployments took %d of 512", taken)
	}
	if s.try(of("f")) != nil {
		t.Error("a deployment without calls gets no slot")
	}
}
