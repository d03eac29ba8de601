package oauth

import "testing"

func TestWhoBeganBeforeACodeWasRedeemedIsNoThief(t *testing.T) {
	r := newRedemptions()
	code, other := []byte("code"), []byte("other")
	early := r.begin()
	if r.beside(code, early) {
		t.Error("nobody redeemed it")
	}
	r.redeem(code)
	if !r.beside(code, early) || !r.beside(code, r.begin()) || r.beside(other, early) {
		t.Error("while it is being redeemed, everybody began before that was committed")
	}
	r.done(code, true)
	if !r.beside(code, early) {
		t.Error("who began before")
	}
	late := r.begin()
	if r.beside(code, late) {
		t.Error("who began after it is a thief")
	}
	r.redeem(other)
	r.done(other, false)
	if r.beside(other, early) {
		t.Error("a transaction that failed redeemed nothing")
	}
	r.redeem(other)
	r.done(other, true)
	if r.beside(code, late) || !r.beside(other, late) {
		t.Error("each code has its own time")
	}
	r.done(other, false) // of one who tried beside the winner
	if !r.beside(other, late) {
		t.Error("what failed beside takes nothing away")
	}
}
