package turns

import (
	"context"
	"errors"
	"testing"
)

func TestCallersOfANameTakeTurns(t *testing.T) {
	var turns Turns
	first, err := turns.Take(context.Background(), "ns/acme")
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(context.Background())
	waiting := make(chan error, 1)
	go func() {
		_, err := turns.Take(gone, "ns/acme")
		waiting <- err
	}()
	if other, err := turns.Take(context.Background(), "ns/other"); err != nil {
		t.Errorf("another name waits: %v", err)
	} else {
		other()
	}
	leave()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("a second caller works beside the first: %v", err)
	}
	first()
	if again, err := turns.Take(context.Background(), "ns/acme"); err != nil {
		t.Error(err)
	} else {
		again()
	}
	if len(turns.byName) != 0 {
		t.Errorf("%d names are held after their callers ended", len(turns.byName))
	}
}
