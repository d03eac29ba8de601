package backend

import (
	"errors"
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/backend/console"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/reference"
)

// documents are the contracts of all listeners, with the paths at which the backend's listener serves them.
var documents = []reference.Document{
	{Name: "Backend", Page: reference.Page, JSON: "/openapi.json"},
	{
		Name: "End users", Page: "/end-user/docs", JSON: "/end-user/openapi.json",
		Elsewhere: "These operations are on the end-user listener, under the hosts that a deployment declares. They can be read here, and tried there.",
	},
	{
		Name: "Decisions", Page: "/decision/docs", JSON: "/decision/openapi.json",
		Elsewhere: "These operations are on the decision listener, which shows this page at /docs as well. They can be read here, and tried there.",
	},
}

// handlePages registers the pages for browsers, and the documents that they show. None needs a credential.
func (p *pipeline) handlePages(backend *openapi.Document) error {
	endUser, err1 := openapi.LoadEndUser()
	decisions, err2 := openapi.LoadDecision()
	pages, err3 := reference.New(documents, reference.Link{Name: "Console", Path: console.Page})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	for i, served := range []*openapi.Document{backend, endUser, decisions} {
		p.handlePublic("GET "+documents[i].JSON, served.ServeJSON)
		p.handlePublic("GET "+documents[i].Page, pages.ServePage)
	}
	p.handlePublic("GET "+console.Page, p.console.ServePage)
	p.handleAssets(reference.Assets, pages.ServeAsset)
	p.handleAssets(console.Assets, p.console.ServeAsset)
	return nil
}

// handleAssets registers the handler of the files below a path.
func (p *pipeline) handleAssets(below string, serve func(http.ResponseWriter, *http.Request) bool) {
	p.handlePublic("GET "+below+"/{version}/{file}", func(w http.ResponseWriter, r *http.Request) {
		if !serve(w, r) {
			p.unrouted(w, r, "")
		}
	})
}
