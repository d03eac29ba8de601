package passkey

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/descope/virtualwebauthn"
)

// exchange is a registration and a sign-in as test/passkeys/verify.js reads them.
type exchange struct {
	Creation    json.RawMessage `json:"creation"`
	Attestation json.RawMessage `json:"attestation"`
	Request     json.RawMessage `json:"request"`
	Assertion   json.RawMessage `json:"assertion"`
	Origin      string          `json:"origin"`
}

// newExchange lets an authenticator of virtualwebauthn answer the options of this package.
func newExchange(t *testing.T, c *Challenges, kind virtualwebauthn.KeyType) exchange {
	t.Helper()
	rp := virtualwebauthn.RelyingParty{ID: "acme.example", Name: "Acme", Origin: origin}
	handle := bytes.Repeat([]byte{8}, 32)
	device := virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: handle, BackupEligible: true, BackupState: true})
	key := virtualwebauthn.NewCredential(kind)
	for ValidateKey(key.Key.AttestationData()) != nil { // the library omits leading zeros of coordinates
		key = virtualwebauthn.NewCredential(kind)
	}
	e := exchange{Origin: origin}
	var err error
	if e.Creation, err = CreationOptions(acme(), fresh(t, c, registration), User{handle, "ada@acme.example", "Ada"}, KindPasskey, nil); err != nil {
		t.Fatal(err)
	}
	creation, err := virtualwebauthn.ParseAttestationOptions(string(e.Creation))
	if err != nil || creation.UserID != string(handle) || creation.RelyingPartyID != "acme.example" {
		t.Fatalf("%+v, %v", creation, err)
	}
	e.Attestation = withExtensions(t, virtualwebauthn.CreateAttestationResponse(rp, device, key, *creation))
	if e.Request, err = RequestOptions(acme(), fresh(t, c, Scope{Ceremony: SignIn}), nil, true); err != nil {
		t.Fatal(err)
	}
	request, err := virtualwebauthn.ParseAssertionOptions(string(e.Request))
	if err != nil {
		t.Fatal(err)
	}
	key.Counter = 1
	e.Assertion = withExtensions(t, virtualwebauthn.CreateAssertionResponse(rp, device, key, *request))
	return e
}

// withExtensions adds the member that browsers send and virtualwebauthn omits.
func withExtensions(t *testing.T, credential string) json.RawMessage {
	t.Helper()
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(credential), &members); err != nil {
		t.Fatal(err)
	}
	members["clientExtensionResults"] = json.RawMessage("{}")
	out, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// accept registers and signs in with this package.
func (e exchange) accept(t *testing.T, c *Challenges) (Credential, Verified) {
	t.Helper()
	attestation, err := ParseAttestation(e.Attestation)
	if err != nil {
		t.Fatal(err)
	}
	registered, _, err := c.Register(attestation, request(registration))
	if err != nil {
		t.Fatal(err)
	}
	assertion, err := ParseAssertion(e.Assertion)
	if err != nil {
		t.Fatal(err)
	}
	row := Stored{
		CredentialID: assertion.CredentialID, PublicKey: registered.PublicKey, UserHandle: bytes.Repeat([]byte{8}, 32),
		SignCount: registered.SignCount, BackupEligible: registered.BackupEligible, BackedUp: registered.BackedUp,
	}
	verified, err := c.Verify(assertion, row, request(Scope{Ceremony: SignIn}))
	if err != nil {
		t.Fatal(err)
	}
	return registered, verified
}

var peerKinds = []virtualwebauthn.KeyType{virtualwebauthn.KeyTypeEC2, virtualwebauthn.KeyTypeRSA}

func TestPeerAuthenticatorsRegisterAndSignIn(t *testing.T) {
	t.Parallel()
	c := challenges(t, 1)
	for _, kind := range peerKinds {
		registered, verified := newExchange(t, c, kind).accept(t, c)
		if !registered.UserVerified || !registered.BackedUp || !verified.UserVerified || verified.BackupChanged || verified.SignCount != 1 {
			t.Errorf("%s: %+v, %+v", kind, registered, verified)
		}
	}
}

// TestPeerRelyingPartyReadsTheSame lets SimpleWebAuthn verify what this package verifies.
func TestPeerRelyingPartyReadsTheSame(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "..", "test", "passkeys")
	if _, err := os.Stat(filepath.Join(folder, "node_modules")); err != nil {
		t.Skip("SimpleWebAuthn is not installed (make test-passkeys)")
	}
	c := challenges(t, 1)
	for _, kind := range peerKinds {
		e := newExchange(t, c, kind)
		registered, verified := e.accept(t, c)
		input, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "node", "verify.js")
		command.Dir, command.Stdin, command.Stderr = folder, bytes.NewReader(input), os.Stderr
		output, err := command.Output()
		if err != nil {
			t.Fatal(err)
		}
		type reading struct {
			ID, PublicKey, AAGUID                         string
			UserVerified, MultiDevice, BackedUp, SignedIn bool
			Counter                                       uint32
		}
		var got reading
		if err := json.Unmarshal(output, &got); err != nil {
			t.Fatal(err)
		}
		want := reading{
			b64(registered.ID), b64(registered.PublicKey), hex.EncodeToString(registered.AAGUID[:]),
			registered.UserVerified, registered.BackupEligible == BackupEligible, verified.BackedUp, true, verified.SignCount,
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
}
