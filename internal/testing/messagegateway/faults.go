package messagegateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// The kinds of faults.
const (
	// FaultThrottle answers 429 with Retry-After.
	FaultThrottle = "throttle"
	// FaultError answers Status with Code.
	FaultError = "error"
	// FaultSlow takes and delivers the text, and answers after Delay.
	FaultSlow = "slow"
	// FaultHangUp ends the connection without an answer.
	FaultHangUp = "hang_up"
	// FaultSlowBody takes and delivers the text, and answers half of the body at once and the rest after Delay.
	FaultSlowBody = "slow_body"
	// FaultGarbage responds 201 with a body that is not a message.
	FaultGarbage = "garbage"
	// FaultFailed answers 201 with a message of status failed and Code.
	FaultFailed = "failed"
)

// Fault is a failure of the next requests to send a text. It happens before the Gateway validates the request.
type Fault struct {
	Kind string
	// Count is the number of requests that fail; 0: one.
	Count int
	// To limits the fault to requests to this recipient; empty: to all.
	To string
	// RetryAfter is the header of FaultThrottle: seconds or a date; empty: 1.
	RetryAfter string
	// Delay is the delay of FaultSlow and FaultSlowBody.
	Delay time.Duration
	// Status is the HTTP status of FaultError; 0: 500.
	Status int
	// Code is Twilio's error code; 0: 20500 for FaultError, 30008 for FaultFailed.
	Code int
}

// UnmarshalJSON reads a fault of POST /_faults.
func (f *Fault) UnmarshalJSON(raw []byte) error {
	var in struct {
		Kind       string `json:"kind"`
		Count      int    `json:"count"`
		To         string `json:"to"`
		RetryAfter string `json:"retry_after"`
		Delay      string `json:"delay"`
		Status     int    `json:"status"`
		Code       int    `json:"code"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	var delay time.Duration
	if in.Delay != "" {
		var err error
		if delay, err = time.ParseDuration(in.Delay); err != nil {
			return err
		}
	}
	*f = Fault{Kind: in.Kind, Count: in.Count, To: in.To, RetryAfter: in.RetryAfter, Delay: delay, Status: in.Status, Code: in.Code}
	return nil
}

// complete sets the defaults of absent members.
func (f *Fault) complete() error {
	f.Count = max(f.Count, 1)
	f.RetryAfter = cmp.Or(f.RetryAfter, "1")
	f.Status = cmp.Or(f.Status, http.StatusInternalServerError)
	switch f.Kind {
	case FaultThrottle, FaultSlow, FaultHangUp, FaultSlowBody, FaultGarbage:
	case FaultError:
		f.Code = cmp.Or(f.Code, 20500)
	case FaultFailed:
		f.Code = cmp.Or(f.Code, 30008)
	default:
		return fmt.Errorf("no fault is called %q", f.Kind)
	}
	if f.Status < 300 || f.Status > 599 {
		return fmt.Errorf("status %d is no fault: give 300 to 599", f.Status)
	}
	return nil
}

type faults struct {
	mu   sync.Mutex
	line []Fault
}

func (f *faults) add(fault Fault) error {
	if err := fault.complete(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line = append(f.line, fault)
	return nil
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line = nil
}

// next takes the first fault in line for a recipient.
func (f *faults) next(to string) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.line {
		fault := f.line[i]
		if fault.To != "" && fault.To != to {
			continue
		}
		if f.line[i].Count--; f.line[i].Count == 0 {
			f.line = append(f.line[:i:i], f.line[i+1:]...)
		}
		return fault, true
	}
	return Fault{}, false
}

func (c *Gateway) postFaults(w http.ResponseWriter, r *http.Request) {
	var fault Fault
	err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&fault)
	if err == nil {
		err = c.Fail(fault)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (c *Gateway) deleteFaults(w http.ResponseWriter, _ *http.Request) {
	c.Heal()
	w.WriteHeader(http.StatusNoContent)
}

// happen applies a fault to a request. serve answers the request as if there were no fault.
func (c *Gateway) happen(fault Fault, w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	switch fault.Kind {
	case FaultThrottle:
		w.Header().Set("Retry-After", fault.RetryAfter)
		refuse(w, http.StatusTooManyRequests, 20429, "Too Many Requests")
	case FaultError:
		refuse(w, fault.Status, fault.Code, "An internal server error has occurred")
	case FaultSlow:
		held := &recorder{header: http.Header{}}
		serve(held, r)
		if !c.pause(r.Context(), fault.Delay) {
			panic(http.ErrAbortHandler)
		}
		held.replay(w)
	case FaultHangUp:
		panic(http.ErrAbortHandler)
	case FaultSlowBody:
		held := &recorder{header: http.Header{}}
		serve(held, r)
		rest := held.body[len(held.body)/2:]
		held.header.Set("Content-Length", strconv.Itoa(len(held.body)))
		held.body = held.body[:len(held.body)/2]
		held.replay(w)
		_ = http.NewResponseController(w).Flush()
		if !c.pause(r.Context(), fault.Delay) {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(rest)
	case FaultGarbage:
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "<html><body>Created</body></html>")
	case FaultFailed:
		message := c.representation(r.PostForm, newSID(), time.Now())
		message.Status, message.ErrorCode, message.ErrorMessage = "failed", &fault.Code, "Unknown error"
		writeJSON(w, http.StatusCreated, message)
	}
}

// recorder records a response.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

func (a *recorder) Header() http.Header    { return a.header }
func (a *recorder) WriteHeader(status int) { a.status = status }
func (a *recorder) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

func (a *recorder) replay(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}
