package management

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// answerJSON sends a value as JSON with status 200.
func (a *API) answerJSON(w http.ResponseWriter, r *http.Request, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	answer(w, raw)
}

func setSynced(w http.ResponseWriter, synced bool) {
	w.Header()["Cardea-Synced"] = []string{strconv.FormatBool(synced)}
}

// unchunked is how long an answer, in bytes, may be for net/http to count it itself; a longer one of unsaid length goes out in
// chunks.
const unchunked = 2048

var contentTypeJSON = []string{"application/json"}

// answer sends a JSON body, whole or in parts, with status 200.
func answer(w http.ResponseWriter, parts ...[]byte) {
	w.Header()["Content-Type"] = contentTypeJSON
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if size > unchunked {
		w.Header()["Content-Length"] = []string{strconv.Itoa(size)}
	}
	for _, part := range parts {
		_, _ = w.Write(part) // the client is gone
	}
}
