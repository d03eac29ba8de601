// Command orders is a small HTTP API with an OpenAPI document. docs/agents-quickstart.md gives an agent its operations
// as tools.
package main

import (
	"cmp"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
)

//go:embed openapi.yaml
var document string

// documented is the address in the document.
const documented = "127.0.0.1:9000"

type order struct {
	Number string `json:"number"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

type shop struct {
	mu     sync.Mutex
	orders []order
}

func main() {
	address, token := cmp.Or(os.Getenv("LISTEN"), documented), os.Getenv("ORDERS_TOKEN")
	if token == "" {
		log.Fatal("set ORDERS_TOKEN to the token that callers send")
	}
	s := &shop{orders: []order{{Number: "1001", State: "sent"}, {Number: "1007", State: "open"}}}
	api := http.NewServeMux()
	api.HandleFunc("GET /v1/orders", s.list)
	api.HandleFunc("GET /v1/orders/{number}", s.find)
	api.HandleFunc("POST /v1/orders/{number}/cancellation", s.cancel)
	http.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write([]byte(strings.ReplaceAll(document, documented, address))) // the client may have closed the connection
	})
	http.Handle("/v1/", authorized(token, api))
	log.Printf("http://%s/openapi.yaml", address)
	log.Fatal(http.ListenAndServe(address, nil))
}

// authorized refuses requests without the token.
func authorized(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
			answer(w, http.StatusUnauthorized, map[string]string{"message": "the token is missing or wrong"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []order{}
	for _, one := range s.orders {
		if state := r.URL.Query().Get("state"); state == "" || state == one.State {
			found = append(found, one)
		}
	}
	answer(w, http.StatusOK, found)
}

func (s *shop) find(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.orders {
		if one.Number == r.PathValue("number") {
			answer(w, http.StatusOK, one)
			return
		}
	}
	answer(w, http.StatusNotFound, map[string]string{"message": "there is no order " + r.PathValue("number")})
}

func (s *shop) cancel(w http.ResponseWriter, r *http.Request) {
	var wanted struct{ Reason string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&wanted); err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"message": "the body is no JSON object"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range s.orders {
		switch {
		case one.Number != r.PathValue("number"):
		case one.State == "sent":
			answer(w, http.StatusConflict, map[string]string{"message": "the order was sent"})
			return
		default:
			s.orders[i] = order{one.Number, "cancelled", wanted.Reason}
			answer(w, http.StatusOK, s.orders[i])
			return
		}
	}
	answer(w, http.StatusNotFound, map[string]string{"message": "there is no order " + r.PathValue("number")})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have closed the connection
}
