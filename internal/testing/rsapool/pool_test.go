package rsapool_test

import (
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/rsapool"
)

func TestKeyHasOneBorrowerAtATime(t *testing.T) {
	var first, second, third rsapool.Loan
	a, b := first.Take(), first.Take()
	if c := second.Take(); a.Equal(b) || a.Equal(c) || b.Equal(c) {
		t.Error("two borrowers have the same key")
	}
	first.Return()
	first.Return() // has none
	if d, e, f := third.Take(), third.Take(), third.Take(); d.Equal(e) || !a.Equal(d) && !b.Equal(d) || !a.Equal(e) && !b.Equal(e) || f.Equal(a) || f.Equal(b) {
		t.Error("the returned keys are not lent again, each once")
	}
}
