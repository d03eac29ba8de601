package db

import (
	"context"
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// silentHosts dials hosts. A host in lost never answers; given records how long each dial to it waited.
type silentHosts struct {
	lost  []string
	given map[string][]time.Duration
}

func (s *silentHosts) dial(ctx context.Context, _, address string) (net.Conn, error) {
	begun := time.Now()
	if !slices.Contains(s.lost, address) {
		here, _ := net.Pipe()
		return here, nil
	}
	within, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	<-within.Done()
	s.given[address] = append(s.given[address], time.Since(begun))
	return nil, within.Err()
}

func TestAHostThatDoesNotAnswerIsGivenUpSoonerTheNextTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := &silentHosts{lost: []string{"a"}, given: map[string][]time.Duration{}}
		h := &hosts{dial: network.dial, several: true, lost: map[string]bool{}}
		dial := func(address string) error {
			conn, err := h.connect(t.Context(), "tcp", address)
			if err == nil {
				_ = conn.Close()
			}
			return err
		}
		for range 3 {
			if dial("a") == nil || dial("b") != nil {
				t.Fatal("a answers, or b does not")
			}
		}
		network.lost = nil
		if err := dial("a"); err != nil {
			t.Error(err)
		}
		network.lost = []string{"a"}
		if dial("a") == nil {
			t.Error("a answers")
		}
		if want := []time.Duration{hostTimeout, lostTimeout, lostTimeout, hostTimeout}; !slices.Equal(network.given["a"], want) {
			t.Errorf("the dials took %v, want %v", network.given["a"], want)
		}
	})
}

func TestACallerWithoutTimeSaysNothingAboutAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := &silentHosts{lost: []string{"a"}, given: map[string][]time.Duration{}}
		h := &hosts{dial: network.dial, several: true, lost: map[string]bool{}}
		hurried, cancel := context.WithTimeout(t.Context(), lostTimeout/2)
		defer cancel()
		if _, err := h.connect(hurried, "tcp", "a"); err == nil {
			t.Fatal("a answers")
		}
		if h.lost["a"] {
			t.Error("a is taken for lost")
		}
	})
}

type timedOut struct{ net.Conn }

func (timedOut) Read([]byte) (int, error) { return 0, syscall.ETIMEDOUT }

func TestAConnectionWhoseHostStoppedAnsweringSaysSo(t *testing.T) {
	t.Parallel()
	ended := 0
	h := &hosts{dial: func(context.Context, string, string) (net.Conn, error) { return timedOut{}, nil }, ended: func() { ended++ }}
	conn, err := h.connect(t.Context(), "tcp", "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(nil); !errors.Is(err, syscall.ETIMEDOUT) || ended != 1 {
		t.Errorf("%v, reported %d times", err, ended)
	}
}
