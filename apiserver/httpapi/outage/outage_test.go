package outage

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// An outage is logged once when it begins and once when it ends.
func TestOutageIsLoggedTwice(t *testing.T) {
	var lines []string
	w := New("the Kubernetes API", funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	refused := errors.New("connection refused")
	if err := w.Note(true, nil); err != nil || len(lines) != 0 {
		t.Errorf("%v, %v", err, lines)
	}
	for range 100 {
		if err := w.Note(false, refused); !errors.Is(err, ErrAway) || !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
	}
	if err := w.Note(false, context.Canceled); errors.Is(err, ErrAway) {
		t.Errorf("got %v", err)
	}
	for range 100 {
		if err := w.Note(true, refused); !errors.Is(err, refused) || errors.Is(err, ErrAway) {
			t.Errorf("got %v", err)
		}
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "Unreachable") || !strings.Contains(lines[1], "Reachable again") {
		t.Errorf("lines %q", lines)
	}
}

func TestSingleSlowCallIsNoOutage(t *testing.T) {
	t.Parallel()
	lines := 0
	w := New("the Kubernetes API", funcr.New(func(_, _ string) { lines++ }, funcr.Options{}))
	slow := context.DeadlineExceeded
	for range 3 {
		if err := w.Note(false, slow); errors.Is(err, ErrAway) || !errors.Is(err, slow) {
			t.Errorf("a slow call between others: %v", err)
		}
		_ = w.Note(true, nil)
	}
	if lines != 0 {
		t.Errorf("%d lines of slow calls between others, want none", lines)
	}
	_ = w.Note(false, slow)
	if err := w.Note(false, slow); !errors.Is(err, ErrAway) || lines != 1 {
		t.Errorf("the second slow call in a row: %v, %d lines", err, lines)
	}
}
