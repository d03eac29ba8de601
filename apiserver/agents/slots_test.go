package agents

import "testing"

func TestCallsWaitForTheirOwnSlotsOnly(t *testing.T) {
	s := newSlots()
	full, other := []slot{{"tool full", 1}, {"server", 9}}, []slot{{"tool other", 1}, {"server", 9}}
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
