package saml

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dex is the connector of Dex.
var dex = peer{name: "Dex", laxer: []difference{
	{"it does not check these values", []string{"assertion signed", "response signed", "both signed"}, []string{
		"no audience", "no recipient", "no end of the confirmation", "an empty destination", "another issuer of the assertion", "an issuer that begins with the right",
		"no time of the response", "no time of the assertion", "no time of the authentication", "a time of 65 characters", "an ID of the assertion with a bracket",
	}},
	{"it accepts these algorithms and parts", []string{"assertion signed", "response signed", "both signed"}, []string{
		"SHA-1", "a method with SHA-1", "a digest by SHA-1", "the form with comments", "the form with comments, of itself", "the inclusive form",
		"the transforms in another order", "two references", "an Object", "a DOCTYPE", "an instruction",
	}},
	{"of a response that is not signed, it reads the assertion alone", []string{"assertion signed"}, []string{
		"another issuer of the response", "another destination", "the request of another attempt", "no request", "a status of failure", "no status",
	}},
	{"it verifies and reads the first assertion, and ignores all others", []string{"assertion signed", "both signed"}, []string{
		"a forged assertion after the assertion", "the assertion in Extensions, a forged one in its place", "an assertion of another namespace", "another response in the response",
	}},
	{"it verifies one signature of two", []string{"both signed"}, []string{
		"1: the response in its signature, in a forged response", "2: the response before its signature, in a forged response", "a further attribute", "another element",
		"another namespace of a value", "another ID of the element", "another reference", "a reference to the document", "no reference", "no SignedInfo", "no canonicalization",
		"no transforms", "no digest", "an empty digest", "no value", "an empty value", "a value of another content", "a value that is not base64", "two KeyInfos", "two SignedInfos",
		"two values", "a stated digest of SHA-1", "a stated inclusive form", "a stated method of HMAC", "a stated method of SHA-1",
	}},
}, stricter: []difference{
	{"it needs an address", []string{"assertion signed", "response signed", "both signed"}, []string{"without the attributes"}},
	{"it needs the certificate in KeyInfo, or no KeyInfo", []string{"assertion signed", "response signed", "both signed"}, []string{"KeyInfo with a name alone"}},
}}

// dexProgram returns the path of the program that evaluates responses as Dex does.
func dexProgram(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../../bin/upstream-peers/dex-saml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("Dex is missing: make test-connections builds it")
	}
	return program
}

// byDex returns what Dex decides on responses now.
func byDex(t *testing.T, program string, input peerInput) (decisions map[string]decision) {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program) //nolint:gosec // a program of this repository
	command.Stdin = bytes.NewReader(raw)
	var stderr strings.Builder
	command.Stderr = &stderr
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if err := json.Unmarshal(printed, &decisions); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	return decisions
}

// Dex accepts no response that is refused here, except for the rules that it does not have, and accepts those that are
// accepted here, except for those that lack what it needs. It decrypts nothing, so it refuses all encrypted ones. Its
// clock is that of the machine.
func TestDexAgreesOnResponses(t *testing.T) {
	t.Parallel()
	program := dexProgram(t)
	at := time.Now().UTC().Truncate(time.Second)
	by := newSignerAt(keys().idp.key, at)
	plain, encrypted := vectors(by, at.Sub(now)), map[string][]byte{}
	for _, s := range shapes {
		for name := range plain {
			if s.encrypts && strings.HasPrefix(name, s.name+": ") {
				encrypted[name] = plain[name]
				delete(plain, name)
			}
		}
	}
	input := peerInput{Request: testRequest, ACS: testACS, SP: testSP, IDP: testIDP, IDPCert: certificatePEM(by.cert), Responses: map[string]string{}}
	for _, all := range []map[string][]byte{plain, encrypted} {
		for name, xml := range all {
			input.Responses[name] = encode(xml)
		}
	}
	decisions := byDex(t, program, input)
	for name := range encrypted {
		if decisions[name].Error == "" {
			t.Errorf("%s: Dex decrypts it now, for %q", name, decisions[name].Subject)
		}
	}
	want := expected()
	want.Provider, want.Now = provider(by), at
	accepted, refused := dex.compare(t, plain, want, decisions)
	if t.Logf("Dex refuses %d encrypted responses", len(encrypted)); accepted == 0 || refused == 0 {
		t.Errorf("both accept %d and refuse %d responses", accepted, refused)
	}
}
