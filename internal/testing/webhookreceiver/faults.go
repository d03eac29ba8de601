package webhookreceiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The faults, as the value of fault in the query of the receiver's URL. A number is another one: that status, with the
// header Retry-After of retry_after, and with a Location if it is a redirect.
const (
	// FaultHang does not respond until the sender ends the request.
	FaultHang = "hang"
	// FaultSlow responds after delay.
	FaultSlow = "slow"
	// FaultTrickle responds with a byte of the body after each delay, without an end.
	FaultTrickle = "trickle"
	// FaultEndless responds with a body without an end, as fast as it is read.
	FaultEndless = "endless"
	// FaultHeader responds with a header of 1 MiB.
	FaultHeader = "header"
	// FaultGzip responds with a small body that decompresses to 1 GiB.
	FaultGzip = "gzip"
	// FaultHangUp ends the connection without a response.
	FaultHangUp = "hang_up"
)

const (
	// defaultDelay and defaultTrickle are the delays of FaultSlow and FaultTrickle.
	defaultDelay, defaultTrickle = 2 * time.Second, 50 * time.Millisecond
	// maxDelay bounds a delay.
	maxDelay = time.Minute
	// headerSize is the size of the header of FaultHeader, and bombSize that of the decompressed body of FaultGzip.
	headerSize, bombSize = 1 << 20, 1 << 30
	// chunk is the size of a write of a large body.
	chunk = 64 << 10
)

// injected is a fault of a request; without a kind: none.
type injected struct {
	kind string
	// status is the status of the response, 0 for none.
	status     int
	retryAfter string
	delay      time.Duration
	// attempts limits the fault to the first attempts of each event, 0: all.
	attempts int64
}

// faultOf reads the fault of a URL's query.
func faultOf(query url.Values) (injected, error) {
	f := injected{kind: query.Get("fault"), retryAfter: query.Get("retry_after")}
	switch f.kind {
	case "", FaultHang, FaultHangUp:
	case FaultSlow:
		f.status, f.delay = http.StatusNoContent, defaultDelay
	case FaultTrickle:
		f.status, f.delay = http.StatusOK, defaultTrickle
	case FaultEndless, FaultHeader, FaultGzip:
		f.status = http.StatusOK
	default:
		status, err := strconv.Atoi(f.kind)
		if err != nil || status < 200 || status > 599 {
			return f, fmt.Errorf("fault is %q: use a status from 200 to 599, or one of %s", f.kind,
				strings.Join([]string{FaultHang, FaultSlow, FaultTrickle, FaultEndless, FaultHeader, FaultGzip, FaultHangUp}, ", "))
		}
		f.status = status
	}
	if text := query.Get("delay"); text != "" {
		delay, err := time.ParseDuration(text)
		if err != nil || delay <= 0 || delay > maxDelay {
			return f, fmt.Errorf("delay is %q: use a duration up to %s, such as 500ms", text, maxDelay)
		}
		f.delay = delay
	}
	if text := query.Get("attempts"); text != "" {
		attempts, err := strconv.ParseInt(text, 10, 64)
		if err != nil || attempts < 1 {
			return f, fmt.Errorf("attempts is %q: use a number, such as 2", text)
		}
		f.attempts = attempts
	}
	return f, nil
}

// affects reports whether the fault happens at an attempt.
func (f injected) affects(attempt int64) bool { return f.attempts == 0 || attempt <= f.attempts }

func (f injected) respond(w http.ResponseWriter, r *http.Request) {
	switch f.kind {
	case FaultHang:
		<-r.Context().Done()
	case FaultHangUp:
		panic(http.ErrAbortHandler)
	case FaultSlow:
		if pause(r.Context(), f.delay) {
			w.WriteHeader(f.status)
		}
	case FaultTrickle:
		f.trickle(w, r)
	case FaultEndless:
		for same := bytes.Repeat([]byte("x"), chunk); r.Context().Err() == nil; {
			if _, err := w.Write(same); err != nil {
				return
			}
		}
	case FaultHeader:
		for i := range headerSize / chunk {
			w.Header().Set(fmt.Sprintf("X-Large-%d", i), strings.Repeat("x", chunk))
		}
		w.WriteHeader(f.status)
	case FaultGzip:
		bomb(w, r)
	default:
		if f.retryAfter != "" {
			w.Header().Set("Retry-After", f.retryAfter)
		}
		if f.status >= 300 && f.status < 400 {
			w.Header().Set("Location", r.URL.Path)
		}
		w.WriteHeader(f.status)
	}
}

// trickle sends a byte after each delay until the sender ends the request.
func (f injected) trickle(w http.ResponseWriter, r *http.Request) {
	controller := http.NewResponseController(w)
	for w.WriteHeader(f.status); pause(r.Context(), f.delay); {
		if _, err := w.Write([]byte("x")); err != nil || controller.Flush() != nil {
			return
		}
	}
}

// bomb sends a compressed body.
func bomb(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	compressed := gzip.NewWriter(w)
	same := bytes.Repeat([]byte("x"), chunk)
	for written := 0; written < bombSize && r.Context().Err() == nil; written += chunk {
		if _, err := compressed.Write(same); err != nil {
			return
		}
	}
	_ = compressed.Close() // the sender may have ended the request
}

// pause waits, and reports whether the request did not end meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
