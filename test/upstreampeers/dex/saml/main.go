// Command saml evaluates responses of SAML as the connector of Dex does, now. It reads an input in JSON from standard
// input, and prints the decisions by the names of the responses.
package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/dexidp/dex/connector"
	"github.com/dexidp/dex/connector/saml"
)

// input has the settings of the connector and responses in base64.
type input struct {
	Request   string            `json:"request"`
	ACS       string            `json:"acs"`
	SP        string            `json:"sp"`
	IDP       string            `json:"idp"`
	IDPCert   string            `json:"idpCert"`
	Responses map[string]string `json:"responses"`
}

// decision is the subject of an accepted response, or why a response is refused.
type decision struct {
	Subject string `json:"subject"`
	Error   string `json:"error"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	config := saml.Config{
		EntityIssuer: in.SP, SSOIssuer: in.IDP, SSOURL: in.IDP, CAData: []byte(in.IDPCert), RedirectURI: in.ACS, EmailAttr: "mail", UsernameAttr: "givenName",
	}
	opened, err := config.Open("peer", slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	party, ok := opened.(connector.SAMLConnector)
	if !ok {
		return fmt.Errorf("%T is no connector of SAML", opened)
	}
	decisions := map[string]decision{}
	for name, response := range in.Responses {
		decisions[name] = decide(party, response, in.Request)
	}
	return json.NewEncoder(os.Stdout).Encode(decisions)
}

// decide evaluates a response to a request. A panic is a refusal: net/http recovers it.
func decide(party connector.SAMLConnector, response, request string) (d decision) {
	defer func() {
		if p := recover(); p != nil {
			d = decision{Error: fmt.Sprintf("panic: %v", p)}
		}
	}()
	identity, err := party.HandlePOST(connector.Scopes{}, response, request)
	if err != nil {
		return decision{Error: err.Error()}
	}
	return decision{Subject: identity.UserID}
}
