package shared

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
)

// refuse answers every command of every connection like a Redis with another password.
func refuse(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for buffer := make([]byte, 4096); ; {
				n, err := conn.Read(buffer)
				if err != nil {
					return
				}
				commands := bytes.Count(buffer[:n], []byte("*")) // every command begins with an asterisk
				if _, err := conn.Write(bytes.Repeat([]byte("-WRONGPASS invalid username-password pair or user is disabled.\r\n"), commands)); err != nil {
					return
				}
			}
		}()
	}
}

func TestRedisNeverReachedIsLoggedOnceWithItsCause(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go refuse(listener)
	defer func() { _ = listener.Close() }()
	lines := make(chan string, 16)
	clock := engine.NewClock(time.Now)
	counters, err := New(Options{
		URL: "redis://:hidden-password@" + listener.Addr().String(), Engine: engine.NewEngine(1 << 20), Clock: clock.Now,
		Log: funcr.New(func(_, args string) { lines <- args }, funcr.Options{}), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- counters.Run(ctx) }()
	line := <-lines
	failed := func() int {
		counters.failures.mu.Lock()
		defer counters.failures.mu.Unlock()
		return counters.failures.count
	}
	for failed() < 2*failuresMost { // further heartbeats fail
		if err := ctx.Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(line, "WRONGPASS") || strings.Contains(line, "hidden-password") {
		t.Errorf("the line lacks the cause or contains the password: %s", line)
	}
	if len(lines) > 0 {
		t.Errorf("logged again: %s", <-lines)
	}
}
