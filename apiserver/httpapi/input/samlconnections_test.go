package input

import (
	"crypto/elliptic"
	"encoding/json"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/internal/testing/samlmetadata"
)

// readChange reads a body with members, and returns the change with the first error.
func readChange(t *testing.T, staging bool, members map[string]string) (connection.Change, error) {
	t.Helper()
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	o, err := body.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	change, invalid := Connection(o, staging, time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	o.Close()
	if err := o.Err(); err != nil {
		return change, err
	}
	return change, invalid
}

func TestPlainHTTPIsForStagingAlone(t *testing.T) {
	t.Parallel()
	der, err := samlmetadata.Certificate(elliptic.P256())
	if err != nil {
		t.Fatal(err)
	}
	const local = "http://127.0.0.1:8080/saml"
	for code, members := range map[string]map[string]string{
		"VALIDATION_ERROR":  {"metadata_url": local},
		"VALIDATION_ERROR ": {"entity_id": local, "sso_url": local, "certificate": samlmetadata.PEM(der)},
		"INVALID_METADATA":  {"metadata_xml": samlmetadata.XML(local, local, der)},
		"INVALID_METADATA ": {"metadata_xml": samlmetadata.XML(local, "HTTP://127.0.0.1/", der)},
	} {
		if change, err := readChange(t, true, members); err != nil || change.SAML == nil {
			t.Errorf("%v is refused in staging: %v", members, err)
		}
		if _, err := readChange(t, false, members); err == nil || apierror.Of(err).EffectiveCode() != code[:16] {
			t.Errorf("%v in production: %v", members, err)
		}
	}
}

func TestChangeWithoutAProviderHasNone(t *testing.T) {
	t.Parallel()
	change, err := readChange(t, false, map[string]string{"display_name": "Globex"})
	if err != nil || change.SAML != nil {
		t.Errorf("%+v, %v", change.SAML, err)
	}
}

// The entity ID and the certificate of a document are what its XML says.
func TestMetadataIsParsedOnce(t *testing.T) {
	t.Parallel()
	der, err := samlmetadata.Certificate(elliptic.P256())
	if err != nil {
		t.Fatal(err)
	}
	change, err := readChange(t, false, map[string]string{"metadata_xml": samlmetadata.XML("https://idp.example", "https://idp.example/sso", der)})
	if err != nil {
		t.Fatal(err)
	}
	given := change.SAML.Given
	if change.SAML.MetadataURL != "" || given.EntityID != "https://idp.example" || given.SignOn[0].URL != "https://idp.example/sso" || string(given.Certificates[0]) != string(der) {
		t.Errorf("%+v", given)
	}
}
