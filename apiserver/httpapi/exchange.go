package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// Exchange is one request and its response. It is the common part of the call types of all listeners, which embed it.
type Exchange struct {
	Recorder
	// ID is the request's id, in the form of a header's values.
	ID [1]string
	// Received is when the request arrived.
	Received time.Time

	clock   func() time.Time
	metrics *Metrics
	// after is called at the end, nil for nothing.
	after func()
}

// AllowTime moves the deadlines of the connection, which are those of short requests, to a time from now. A passed
// deadline for reading would cancel the request. A request within the process has no connection, and no deadlines.
func (x *Exchange) AllowTime(within time.Duration) error {
	until, controller := time.Now().Add(within), http.NewResponseController(&x.Recorder)
	err := errors.Join(controller.SetReadDeadline(until), controller.SetWriteDeadline(until))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// After has End call a function, once the response is sent. Only the last function counts.
func (x *Exchange) After(do func()) { x.after = do }

// Refuser writes the response of an error in the form of its listener.
type Refuser interface{ Refuse(err error) }

// Begin starts the exchange and sets the response's X-Request-Id. The caller defers End. If metrics is nil, the caller
// measures the exchange itself.
func (x *Exchange) Begin(w http.ResponseWriter, r *http.Request, metrics *Metrics, clock func() time.Time) {
	x.Recorder = Recorder{ResponseWriter: w, Status: http.StatusOK}
	x.Received, x.clock, x.metrics = clock(), clock, metrics
	x.ID[0] = RequestID(r)
	w.Header()["X-Request-Id"] = x.ID[:]
}

// Answered measures the exchange now, and not at its end: what follows lasts as long as the client listens.
func (x *Exchange) Answered(r *http.Request) {
	if x.metrics != nil {
		x.metrics.Observe(r, x.Status, x.clock().Sub(x.Received))
	}
	x.metrics = nil
}

// End responds to a panic with an error, and measures the exchange under the pattern of the request. The caller must
// defer it directly, because it calls recover. End passes http.ErrAbortHandler on to net/http, which ends the
// connection.
func (x *Exchange) End(r *http.Request, to Refuser) {
	if x.after != nil {
		defer x.after()
	}
	switch fault := recover(); {
	case fault == http.ErrAbortHandler:
		panic(fault)
	case fault != nil:
		to.Refuse(fmt.Errorf("panic: %v\n%s", fault, debug.Stack()))
	}
	if x.metrics != nil {
		x.metrics.Observe(r, x.Status, x.clock().Sub(x.Received))
	}
}
