package bearer

import (
	"net/http"
	"strings"
)

// FromHeader returns the token of a request's single `Authorization: Bearer` header. It reports false if there is none,
// several headers or another scheme: which of several tokens the client means is unknown.
func FromHeader(r *http.Request) (string, bool) {
	header := r.Header.Values("Authorization")
	if len(header) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}
