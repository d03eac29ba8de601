package httpapi

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// Exchange is one request and its response, the common part of the calls of all listeners. A listener embeds it in its
// call.
type Exchange struct {
	Recorder
	// ID is the request's id, as the value of its header.
	ID [1]string
	// Received is when the request arrived.
	Received time.Time

	clock   func() time.Time
	metrics *Metrics
}

// Refuser writes the response of an error in the form of its listener.
type Refuser interface{ Refuse(err error) }

// Begin starts the exchange and gives the answer its X-Request-Id. The caller defers End. Without metrics, the caller
// measures.
func (x *Exchange) Begin(w http.ResponseWriter, r *http.Request, metrics *Metrics, clock func() time.Time) {
	x.Recorder = Recorder{ResponseWriter: w, Status: http.StatusOK}
	x.Received, x.clock, x.metrics = clock(), clock, metrics
	x.ID[0] = RequestID(r)
	w.Header()["X-Request-Id"] = x.ID[:]
}

// End answers a panic as an error, and measures the exchange under the pattern of the request. It must be deferred
// itself. http.ErrAbortHandler goes on to net/http, which ends the connection.
func (x *Exchange) End(r *http.Request, to Refuser) {
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
