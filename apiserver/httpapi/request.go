package httpapi

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Recorder records the status of a response. Its Status starts as 200.
type Recorder struct {
	http.ResponseWriter
	Status int
}

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) {
	r.Status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

const requestIDAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.:"

// RequestID returns a valid X-Request-Id of the request, or else a new id of 128 random bits.
func RequestID(r *http.Request) string {
	if sent := r.Header["X-Request-Id"]; len(sent) == 1 && len(sent[0]) > 0 && len(sent[0]) <= 128 && strings.Trim(sent[0], requestIDAlphabet) == "" {
		return sent[0]
	}
	return NewRequestID()
}

// NewRequestID returns an id of 128 random bits.
func NewRequestID() string {
	var id [16]byte // unique, not secret
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.EncodeToString(id[:])
}
