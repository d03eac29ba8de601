package messagegateway

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/cardea-iam/cardea/internal/testing/dnsserver"
)

// DNS is the DNS server of the stand-in.
func (c *Gateway) DNS() *dnsserver.Server { return c.dns }

// putDNS sets the TXT records of a name to the texts in the body, a JSON list. With an empty list, the name does not
// exist.
func (c *Gateway) putDNS(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	if name == "" {
		http.Error(w, "name the record: PUT /_dns?name=_cardea-challenge.acme.example", http.StatusBadRequest)
		return
	}
	var texts []string
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&texts); err != nil {
		http.Error(w, "send a JSON list of texts: "+err.Error(), http.StatusBadRequest)
		return
	}
	c.dns.Set(name, texts...)
	w.WriteHeader(http.StatusNoContent)
}
