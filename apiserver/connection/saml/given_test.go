package saml

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/samlmetadata"
)

func TestReadCertificate(t *testing.T) {
	t.Parallel()
	der, err := samlmetadata.Certificate(elliptic.P256())
	if err != nil {
		t.Fatal(err)
	}
	weak, err := samlmetadata.Certificate(elliptic.P224())
	if err != nil {
		t.Fatal(err)
	}
	pem, plainText := samlmetadata.PEM(der), base64.StdEncoding.EncodeToString(der)
	for name, tc := range map[string]struct{ text, want string }{
		"PEM":                  {pem, ""},
		"PEM after text":       {"Bag Attributes\n" + pem, ""},
		"base64":               {plainText, ""},
		"base64 on lines":      {plainText[:64] + "\r\n" + plainText[64:] + "\n", ""},
		"nothing":              {"", "X.509"},
		"no base64":            {"{}", "X.509"},
		"no certificate":       {"aGVsbG8=", "X.509"},
		"another object":       {strings.ReplaceAll(pem, "CERTIFICATE", "PRIVATE KEY"), "type CERTIFICATE"},
		"a PEM without an end": {pem[:100], "type CERTIFICATE"},
		"two":                  {pem + pem, "one certificate"},
		"weak":                 {samlmetadata.PEM(weak), "2048 bits"},
		"long":                 {strings.Repeat("A", maxPEM+1), "16384 bytes"},
	} {
		got, err := ReadCertificate(tc.text)
		switch {
		case tc.want == "" && (err != nil || string(got.Raw) != string(der)):
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// OfDocument reads back the metadata of three stated values.
func TestStatedMetadataIsADocument(t *testing.T) {
	t.Parallel()
	der, err := samlmetadata.Certificate(elliptic.P256())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	m, err := OfDocument(Stated("https://idp.example", "https://idp.example/sso", certificate).Document())
	if err != nil {
		t.Fatal(err)
	}
	if to := m.SignOnEndpoint(); m.EntityID != "https://idp.example" || to.Binding != BindingRedirect || to.URL != "https://idp.example/sso" || !m.Certificates[0].Equal(certificate) {
		t.Errorf("%+v", m)
	}
}
