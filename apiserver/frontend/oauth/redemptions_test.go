package oauth

import "testing"

func TestRedemptionsDistinguishConcurrentFromLater(t *testing.T) {
	r := newRedemptions()
	code, other := []byte("code"), []byte("other")
	early := r.begin()
	if r.racedWith(code, early) {
		t.Error("the code was not redeemed")
	}
	r.redeem(code)
	if !r.racedWith(code, early) || !r.racedWith(code, r.begin()) || r.racedWith(other, early) {
		t.Error("a request during the redemption does not count as concurrent")
	}
	r.done(code, true)
	if !r.racedWith(code, early) {
		t.Error("a request that began before the commit is not concurrent")
	}
	late := r.begin()
	if r.racedWith(code, late) {
		t.Error("a request that began after the commit is concurrent")
	}
	r.redeem(other)
	r.done(other, false)
	if r.racedWith(other, early) {
		t.Error("a failed transaction counts as a redemption")
	}
	r.redeem(other)
	r.done(other, true)
	if r.racedWith(code, late) || !r.racedWith(other, late) {
		t.Error("codes share their counts")
	}
	r.done(other, false) // of a concurrent request that failed
	if !r.racedWith(other, late) {
		t.Error("a failed concurrent request removed the redemption")
	}
}
