package snapshot

import (
	"reflect"
	"testing"
)

func TestEveryIndexIsCommitted(t *testing.T) {
	t.Parallel()
	var x indexes
	if fields, listed := reflect.TypeFor[indexes]().NumField(), len(x.all()); fields != listed {
		t.Errorf("%d indexes, of which %d are listed in all", fields, listed)
	}
}
