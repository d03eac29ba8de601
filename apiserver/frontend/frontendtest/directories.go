package frontendtest

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// DirectoryToken mints a token of a directory, and what verifies it.
func (w *World) DirectoryToken() (string, document.Verifier) {
	w.T.Helper()
	key, err := apikey.Mint(rand.Reader, document.DirectoryTokenPrefix)
	w.Must(err)
	return key.Plain(), document.Verifier{ID: key.ID(), Digest: key.Digest(), Last4: key.Last4()}
}

// DeclareDirectory declares a directory and returns its id.
func (w *World) DeclareDirectory(d document.Directory) string {
	w.T.Helper()
	w.Put(v1alpha1.KindDirectory, d.Slug, Deployment, d.Slug, d)
	return ids.Format(ids.Derive(v1alpha1.KindDirectory, "acme", d.Slug))
}

// SCIM sends a request to a directory, and returns the status, the headers and the body of the response.
func (w *World) SCIM(host, directory, token, method, path, body string, header ...string) (int, http.Header, string) {
	w.T.Helper()
	r, err := http.NewRequest(method, fmt.Sprintf("%s/scim/v2/%s%s", w.Server.URL, directory, path), strings.NewReader(body))
	w.Must(err)
	r.Host = host
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/scim+json; charset=utf-8")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	w.Must(err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	w.Must(err)
	return response.StatusCode, response.Header, string(raw)
}
