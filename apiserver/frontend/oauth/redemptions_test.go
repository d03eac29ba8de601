package oauth

import "testing"

func TestWhoBeganBeforeACodeWasRedeemedIsNoThief(t *testing.T) {
	r := newRedemptions()
	code, other := []byte("code"), []byte("other")
	early := r.begin()
	if r.racedWith(code, early) {
		t.Error("nobody redeemed it")
	}
	r.redeem(code)
	if !r.racedWith(code, early) || !r.racedWith(code, r.begin()) || r.racedWith(other, early) {
		t.Error("while it is being redeemed, everybody began before that was committed")
	}
	r.done(code, true)
	if !r.racedWith(code, early) {
		t.Error("who began before")
	}
	late := r.begin()
	if r.racedWith(code, late) {
		t.Error("who began after it is a thief")
	}
	r.redeem(other)
	r.done(other, false)
	if r.racedWith(other, early) {
		t.Error("a transaction that failed redeemed nothing")
	}
	r.redeem(other)
	r.done(other, true)
	if r.racedWith(code, late) || !r.racedWith(other, late) {
		t.Error("each code has its own time")
	}
	r.done(other, false) // of one who tried beside the winner
	if !r.racedWith(other, late) {
		t.Error("what failed beside takes nothing away")
	}
}
