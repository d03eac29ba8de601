package passkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"

	"github.com/cardea-iam/cardea/internal/seal"
)

const (
	flagUP, flagUV, flagBE, flagBS, flagAT, flagED = 1, 4, 8, 16, 64, 128

	origin = "https://acme.example"
)

var now = time.Unix(1_800_000_000, 0)

// acme is the relying party of the tests.
func acme() RelyingParty {
	return RelyingParty{Deployment: "7", ID: "acme.example", Name: "Acme", Allows: func(o string) bool { return o == origin || o == "https://app.acme.example" }}
}

// challenges returns Challenges of root keys, each of one repeated byte.
func challenges(t testing.TB, fills ...byte) *Challenges {
	t.Helper()
	var files []string
	for _, fill := range fills {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, bytes.Repeat([]byte{fill}, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	ring, err := seal.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return NewChallenges(ring)
}

// request is a request at now for a scope, with user verification.
func request(scope Scope) Request {
	return Request{RelyingParty: acme(), Scope: scope, RequireUV: true, Origin: origin, Now: now}
}

func fresh(t testing.TB, c *Challenges, scope Scope) []byte {
	t.Helper()
	challenge, err := c.New(rand.Reader, acme(), scope, now)
	if err != nil {
		t.Fatal(err)
	}
	return challenge
}

// signer is the private key of a credential and its COSE_Key.
type signer struct {
	key  crypto.Signer
	cose []byte
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	out, err := webauthncbor.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func newES256(t testing.TB) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, encode(t, map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})}
}

func newEd25519(t testing.TB) signer {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, encode(t, map[int]any{1: 1, 3: -8, -1: 6, -2: []byte(public)})}
}

func newRS256(t testing.TB) signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return signer{key, encode(t, map[int]any{1: 3, 3: -257, -1: key.N.Bytes(), -2: []byte{1, 0, 1}})}
}

func (s signer) sign(t testing.TB, message []byte) []byte {
	t.Helper()
	hash, digest := crypto.SHA256, sha256.Sum256(message)
	signed := digest[:]
	if _, ok := s.key.(ed25519.PrivateKey); ok {
		hash, signed = 0, message
	}
	signature, err := s.key.Sign(rand.Reader, signed, hash)
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

// answer is what browser and authenticator put together. Tests change a part before it is signed.
type answer struct {
	client map[string]any
	rpID   string
	flags  byte
	count  uint32
	// attested is the attested credential data, extensions the CBOR after it.
	attested, extensions []byte
	id, handle           []byte
	signer               signer
	// members are added to the credential, responses to its response; nil removes a member.
	members, responses map[string]any
	// forge changes the signature.
	forge func([]byte) []byte
	// tamper changes the authenticator data after the signature.
	tamper func([]byte) []byte
}

func newAnswer(t testing.TB, kind string, challenge []byte, key signer) *answer {
	t.Helper()
	return &answer{
		client: map[string]any{"type": kind, "challenge": base64.RawURLEncoding.EncodeToString(challenge), "origin": origin, "crossOrigin": false},
		rpID:   "acme.example", flags: flagUP | flagUV, count: 1, id: bytes.Repeat([]byte{9}, 32), handle: bytes.Repeat([]byte{8}, 32), signer: key,
		members: map[string]any{}, responses: map[string]any{},
	}
}

func (a *answer) data() []byte {
	hash := sha256.Sum256([]byte(a.rpID))
	return slices.Concat(hash[:], []byte{a.flags}, binary.BigEndian.AppendUint32(nil, a.count), a.attested, a.extensions)
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func (a *answer) json(t testing.TB, response map[string]any) json.RawMessage {
	t.Helper()
	credential := map[string]any{
		"id": b64(a.id), "rawId": b64(a.id), "type": "public-key", "response": response,
		"clientExtensionResults": map[string]any{}, "authenticatorAttachment": "platform",
	}
	for into, from := range map[*map[string]any]map[string]any{&credential: a.members, &response: a.responses} {
		for name, value := range from {
			if value == nil {
				delete(*into, name)
			} else {
				(*into)[name] = value
			}
		}
	}
	out, err := json.Marshal(credential)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (a *answer) clientJSON(t testing.TB) []byte {
	t.Helper()
	out, err := json.Marshal(a.client)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// assertion returns the JSON of navigator.credentials.get.
func (a *answer) assertion(t testing.TB) json.RawMessage {
	t.Helper()
	client, data := a.clientJSON(t), a.data()
	hash := sha256.Sum256(client)
	signature := a.signer.sign(t, slices.Concat(data, hash[:]))
	if a.forge != nil {
		signature = a.forge(signature)
	}
	if a.tamper != nil {
		data = a.tamper(data)
	}
	response := map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature)}
	if a.handle != nil {
		response["userHandle"] = b64(a.handle)
	}
	return a.json(t, response)
}

// attest sets the attested credential data.
func (a *answer) attest(aaguid [16]byte, id, cose []byte) {
	a.flags |= flagAT
	a.attested = slices.Concat(aaguid[:], binary.BigEndian.AppendUint16(nil, uint16(len(id))), id, cose)
}

// attestation returns the JSON of navigator.credentials.create.
func (a *answer) attestation(t testing.TB, format string, statement any) json.RawMessage {
	t.Helper()
	object := encode(t, map[string]any{"fmt": format, "attStmt": statement, "authData": a.data()})
	return a.json(t, map[string]any{
		"clientDataJSON": b64(a.clientJSON(t)), "attestationObject": b64(object), "transports": []string{"internal", "hybrid", "internal"},
		"publicKeyAlgorithm": -7, "authenticatorData": b64(a.data()), "publicKey": "",
	})
}

// stored is the row of the answer's credential.
func (a *answer) stored() Stored {
	return Stored{CredentialID: bytes.Repeat([]byte{9}, 32), PublicKey: a.signer.cose, UserHandle: bytes.Repeat([]byte{8}, 32), BackupEligible: BackupUnknown}
}

// resultOf returns the failed check, "malformed", or "ok".
func resultOf(t testing.TB, err error) string {
	t.Helper()
	var refused *Refused
	var malformed *MalformedError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrExpiredChallenge) && errors.As(err, &refused):
		return "expired"
	case errors.As(err, &refused):
		return string(refused.Check)
	case errors.As(err, &malformed):
		return "malformed"
	}
	t.Fatal(err)
	return ""
}
