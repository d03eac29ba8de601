package saml

import (
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

func request() AuthnRequest {
	return AuthnRequest{
		ID: testRequest, IssuedAt: now, Issuer: testSP, Destination: "https://idp.globex.example/sso", ACSURL: testACS, RelayState: "s.1&x=y z",
	}
}

func TestIDsOfMessages(t *testing.T) {
	t.Parallel()
	id, err := NewID(bytes.NewReader(bytes.Repeat([]byte{0xa5}, 20)))
	if err != nil || id != "_"+strings.Repeat("a5", 20) || !identifier.MatchString(id) {
		t.Errorf("%q, %v", id, err)
	}
	if _, err := NewID(strings.NewReader("too short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a source that ends: %v", err)
	}
}

// redirected verifies the signature of a redirect, and returns its request and RelayState.
func redirected(t *testing.T, address, destination string, key Key) (*etree.Element, string) {
	t.Helper()
	query, found := strings.CutPrefix(address, destination)
	if !found || query[0] != '?' && query[0] != '&' {
		t.Fatalf("%s leads elsewhere", address)
	}
	signed, encoded, _ := strings.Cut(query[1:], "&Signature=")
	values, err := url.ParseQuery(query[1:])
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(values.Get("Signature"))
	if err != nil || encoded == "" || values.Get("SigAlg") != dsig.RSASHA256SignatureMethod ||
		rsa.VerifyPKCS1v15(&key.Private.PublicKey, crypto.SHA256, sum(crypto.SHA256, []byte(signed)), signature) != nil {
		t.Fatalf("%s is not signed: %v", address, err)
	}
	deflated, err := base64.StdEncoding.DecodeString(values.Get("SAMLRequest"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(flate.NewReader(bytes.NewReader(deflated)))
	if err != nil {
		t.Fatal(err)
	}
	root, err := parse(raw, messageBounds)
	if err != nil {
		t.Fatal(err)
	}
	return root, values.Get("RelayState")
}

func TestRequestsByRedirect(t *testing.T) {
	t.Parallel()
	k := keys()
	for name, tc := range map[string]struct {
		change func(*AuthnRequest)
		want   string // what the request has after its issuer
		attr   string
	}{
		"plain":          {func(*AuthnRequest) {}, ``, ""},
		"ForceAuthn":     {func(r *AuthnRequest) { r.ForceAuthn = true }, ``, "true"},
		"a format":       {func(r *AuthnRequest) { r.NameIDFormat = FormatEmailAddress }, `<samlp:NameIDPolicy Format="` + FormatEmailAddress + `" AllowCreate="true"/>`, ""},
		"contexts":       {func(r *AuthnRequest) { r.ClassRefs = []string{"urn:a", "urn:b"} }, `<samlp:RequestedAuthnContext Comparison="exact"><saml:AuthnContextClassRef>urn:a</saml:AuthnContextClassRef><saml:AuthnContextClassRef>urn:b</saml:AuthnContextClassRef></samlp:RequestedAuthnContext>`, ""},
		"no state":       {func(r *AuthnRequest) { r.RelayState = "" }, ``, ""},
		"with its query": {func(r *AuthnRequest) { r.Destination += "?idpid=1" }, ``, ""},
	} {
		r := request()
		tc.change(&r)
		address, err := r.RedirectURL(k.sp)
		if err != nil {
			t.Fatal(err)
		}
		root, state := redirected(t, address, r.Destination, k.sp)
		want := `<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="` + testRequest + `" Version="2.0" IssueInstant="2026-11-26T12:00:00Z" Destination="` + r.Destination +
			`" AssertionConsumerServiceURL="` + testACS + `" ProtocolBinding="` + BindingPost + `"`
		if tc.attr != "" {
			want += ` ForceAuthn="true"`
		}
		want += `><saml:Issuer>` + testSP + `</saml:Issuer>` + tc.want + `</samlp:AuthnRequest>`
		if got := string(render(root)); got != want || state != r.RelayState {
			t.Errorf("%s: state %q\n%s\n%s", name, state, got, want)
		}
		if strings.Contains(address, "RelayState") != (r.RelayState != "") {
			t.Errorf("%s: %s", name, address)
		}
	}
}

func TestRequestsByPost(t *testing.T) {
	t.Parallel()
	k := keys()
	form, err := request().PostForm(k.sp)
	if err != nil || form.URL != request().Destination || form.Name != "SAMLRequest" || form.RelayState != "s.1&x=y z" {
		t.Fatalf("%+v, %v", form, err)
	}
	posted(t, form, "AuthnRequest", k.sp)
}

// posted verifies the signature of a form by this package and by goxmldsig, and returns the message.
func posted(t *testing.T, form Form, tag string, key Key) *etree.Element {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(form.Message)
	if err != nil {
		t.Fatal(err)
	}
	root, err := parse(raw, messageBounds)
	if err != nil || root.Tag != tag || root.ChildElements()[1].Tag != "Signature" {
		t.Fatalf("%s, %v", raw, err)
	}
	trusted := provider(signer{cert: key.Certificate}).Certificates
	signed, _, err := verify(root, trusted)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	validation := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: trusted})
	validation.Clock = dsig.NewFakeClockAt(now)
	if _, err := validation.Validate(root); err != nil {
		t.Errorf("goxmldsig: %v", err)
	}
	return signed
}

func TestIncompleteRequestsAreNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*AuthnRequest){
		"ID": func(r *AuthnRequest) { r.ID = "" }, "Issuer": func(r *AuthnRequest) { r.Issuer = "" }, "ACSURL": func(r *AuthnRequest) { r.ACSURL = "" },
		"Destination": func(r *AuthnRequest) { r.Destination = "" }, "IssuedAt": func(r *AuthnRequest) { r.IssuedAt = time.Time{} },
	} {
		r := request()
		change(&r)
		if got, err := r.RedirectURL(keys().sp); err == nil {
			t.Errorf("without %s: %s", name, got)
		}
		if got, err := r.PostForm(keys().sp); err == nil {
			t.Errorf("without %s: %+v", name, got)
		}
	}
}
