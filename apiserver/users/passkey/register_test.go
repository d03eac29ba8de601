package passkey

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
)

var registration = Scope{Registration, 5, 6}

func TestRegistrationReturnsTheCredential(t *testing.T) {
	t.Parallel()
	c := challenges(t, 1)
	// A statement that comes although none was asked for has no effect, whatever it states.
	for format, statement := range map[string]any{
		"none": map[string]any{}, "packed": map[string]any{"alg": -7, "sig": []byte{1}, "x5c": [][]byte{{1}}}, "future": map[string]any{"x": 1},
		"compound": []any{map[string]any{"fmt": "none", "attStmt": map[string]any{}}},
	} {
		for name, key := range map[string]signer{"ES256": newES256(t), "EdDSA": newEd25519(t), "RS256": newRS256(t)} {
			a := newAnswer(t, "webauthn.create", fresh(t, c, registration), key)
			a.flags |= flagBE | flagBS
			a.attest([16]byte{1, 2}, a.id, key.cose)
			parsed, err := ParseAttestation(a.attestation(t, format, statement))
			if err != nil {
				t.Fatal(err)
			}
			got, spent, err := c.Register(parsed, request(registration))
			if err != nil || !bytes.Equal(got.ID, a.id) || !bytes.Equal(got.PublicKey, key.cose) || got.SignCount != 1 || got.BackupEligible != 1 || !got.BackedUp ||
				!got.UserVerified || got.AAGUID != [16]byte{1, 2} || !slices.Equal(got.Transports, []string{"hybrid", "internal"}) || spent.ExpiresAt != now.Add(Lifetime) {
				t.Errorf("%s, %s: %+v, %+v, %v", format, name, got, spent, err)
			}
		}
	}
}

// TestEachBrokenCheckOfARegistrationRefuses breaks one part of a valid registration at a time (Web Authentication 7.1).
func TestEachBrokenCheckOfARegistrationRefuses(t *testing.T) {
	t.Parallel()
	c := challenges(t, 1)
	key := newES256(t)
	type change = func(a *answer, r *Request)
	response := func(member string, value any) change {
		return func(a *answer, _ *Request) { a.responses[member] = value }
	}
	client := func(member string, value any) change {
		return func(a *answer, _ *Request) { a.client[member] = value }
	}
	withKey := func(cose []byte) change {
		return func(a *answer, _ *Request) { a.attest([16]byte{}, a.id, cose) }
	}
	for name, tt := range map[string]struct {
		want   string
		change change
	}{
		"nothing":                         {"ok", func(*answer, *Request) {}},
		"user not verified, not required": {"ok", func(a *answer, r *Request) { a.flags, r.RequireUV = flagUP|flagAT, false }},
		"no transports":                   {"ok", response("transports", nil)},
		"extensions":                      {"ok", func(a *answer, _ *Request) { a.flags, a.extensions = a.flags|flagED, []byte{0xa1, 0x61, 'x', 1} }},
		"id of 1,023 bytes":               {"ok", func(a *answer, _ *Request) { a.id = make([]byte, 1023); a.attest([16]byte{}, a.id, key.cose) }},

		"no attestation object":      {"malformed", response("attestationObject", nil)},
		"attestation object is text": {"malformed", response("attestationObject", b64([]byte("x")))},
		"two CBOR items":             {"malformed", response("attestationObject", b64([]byte{0xa0, 0xa0}))},
		"empty attestation object":   {"malformed", response("attestationObject", b64([]byte{0xa0}))},
		"no attestation statement":   {"malformed", response("attestationObject", b64(encode(t, map[string]any{"fmt": "none", "authData": make([]byte, 37)})))},
		"no credential in the data":  {"malformed", func(a *answer, _ *Request) { a.flags &^= flagAT; a.attested = nil }},
		"credential cut off":         {"malformed", func(a *answer, _ *Request) { a.attested = a.attested[:40] }},
		"data after the key":         {"malformed", func(a *answer, _ *Request) { a.extensions = []byte{0} }},
		"id of 1,024 bytes":          {"malformed", func(a *answer, _ *Request) { a.id = make([]byte, 1024); a.attest([16]byte{}, a.id, key.cose) }},
		"transports are a text":      {"malformed", response("transports", "internal")},
		"eleven transports":          {"malformed", response("transports", slices.Repeat([]string{"usb"}, 11))},
		"transport of unknown form":  {"malformed", response("transports", []string{"usb\n"})},

		"challenge of another user":     {"challenge", func(_ *answer, r *Request) { r.Scope.User++ }},
		"challenge of another session":  {"challenge", func(_ *answer, r *Request) { r.Scope.Session++ }},
		"challenge of another ceremony": {"challenge", func(_ *answer, r *Request) { r.Scope.Ceremony = SecondFactor }},
		"challenge of a sibling":        {"challenge", func(_ *answer, r *Request) { r.RelyingParty.Deployment = "8" }},
		"expired":                       {"expired", func(_ *answer, r *Request) { r.Now = now.Add(Lifetime) }},
		"type of an assertion":          {"challenge", client("type", "webauthn.get")},
		"foreign origin":                {"origin", func(a *answer, r *Request) { a.client["origin"], r.Origin = "https://evil.example", "" }},
		"another Origin header":         {"origin", func(_ *answer, r *Request) { r.Origin = "https://app.acme.example" }},
		"crossOrigin":                   {"origin", client("crossOrigin", true)},
		"topOrigin":                     {"origin", client("topOrigin", "https://evil.example")},
		"for another relying party":     {"rp", func(a *answer, _ *Request) { a.rpID = "evil.example" }},
		"user not present":              {"user", func(a *answer, _ *Request) { a.flags &^= flagUP }},
		"user not verified":             {"user", func(a *answer, _ *Request) { a.flags &^= flagUV }},
		"backed up, but not eligible":   {"user", func(a *answer, _ *Request) { a.flags |= flagBS }},
		"another id in the signed data": {"user", func(a *answer, _ *Request) { a.attest([16]byte{}, []byte{1}, key.cose) }},
		"algorithm ES384":               {"signature", withKey(encode(t, map[int]any{1: 2, 3: -35, -1: 2, -2: make([]byte, 48), -3: make([]byte, 48)}))},
		"point not on the curve":        {"signature", withKey(encode(t, map[int]any{1: 2, 3: -7, -1: 1, -2: make([]byte, 32), -3: make([]byte, 32)}))},
		"key is a number":               {"signature", withKey([]byte{1})},
	} {
		a := newAnswer(t, "webauthn.create", fresh(t, c, registration), key)
		a.attest([16]byte{}, a.id, key.cose)
		r := request(registration)
		tt.change(a, &r)
		parsed, err := ParseAttestation(a.attestation(t, "none", map[string]any{}))
		if err == nil {
			_, _, err = c.Register(parsed, r)
		}
		if got := resultOf(t, err); got != tt.want {
			t.Errorf("%s: %s, want %s (%v)", name, got, tt.want, err)
		}
	}
}

func TestOnlyWellFormedKeysOfAcceptedAlgorithmsAreValid(t *testing.T) {
	t.Parallel()
	es, ed, rs := newES256(t), newEd25519(t), newRS256(t)
	point := slices.Clone(es.cose[10:42])
	y := es.cose[45:]
	modulus := rs.key.Public().(*rsa.PublicKey).N.Bytes()
	public := []byte(ed.key.Public().(ed25519.PublicKey))
	rsaKey := func(n []byte, e ...byte) []byte { return encode(t, map[int]any{1: 3, 3: -257, -1: n, -2: e}) }
	okp := func(x []byte) []byte { return encode(t, map[int]any{1: 1, 3: -8, -1: 6, -2: x}) }
	ec2 := func(change map[int]any) []byte {
		key := map[int]any{1: 2, 3: -7, -1: 1, -2: point, -3: y}
		for label, value := range change {
			if key[label] = value; value == nil {
				delete(key, label)
			}
		}
		return encode(t, key)
	}
	even := slices.Clone(modulus)
	even[len(even)-1] &^= 1
	for name, tt := range map[string]struct {
		cose  []byte
		valid bool
	}{
		"ES256": {es.cose, true}, "EdDSA": {ed.cose, true}, "RS256": {rs.cose, true}, "other members": {ec2(map[int]any{2: []byte{1}, 4: []int{2}}), true},
		"RSA of 4,096 bits": {rsaKey(append(bytes.Repeat([]byte{0xff}, 511), 1), 3), true},

		"nothing": {nil, false}, "no map": {[]byte{0x80}, false}, "empty map": {[]byte{0xa0}, false}, "trailing data": {append(slices.Clone(es.cose), 0), false},
		"twice the same member":  {append([]byte{0xa6, 1, 2}, es.cose[1:]...), false},
		"ES256 on another curve": {ec2(map[int]any{-1: 2}), false}, "ES256 without curve": {ec2(map[int]any{-1: nil}), false},
		"ES256 without y": {ec2(map[int]any{-3: nil}), false}, "ES256, compressed": {ec2(map[int]any{-3: true}), false},
		"ES256 of another type": {ec2(map[int]any{1: 1}), false}, "ES256, short": {ec2(map[int]any{-2: point[1:]}), false},
		"ES256, long": {ec2(map[int]any{-2: append([]byte{0}, point...)}), false}, "ES256, x and y mixed": {ec2(map[int]any{-2: y, -3: point}), false},
		"ES256, x not reduced": {ec2(map[int]any{-2: bytes.Repeat([]byte{0xff}, 32)}), false},
		"ES256K":               {ec2(map[int]any{3: -47, -1: 8}), false}, "no algorithm": {ec2(map[int]any{3: nil}), false}, "algorithm as text": {ec2(map[int]any{3: "ES256"}), false},
		"Ed25519, short": {okp(public[1:]), false}, "Ed25519, long": {okp(append(slices.Clone(public), 0)), false},
		"Ed448": {encode(t, map[int]any{1: 1, 3: -8, -1: 7, -2: make([]byte, 57)}), false}, "X25519": {encode(t, map[int]any{1: 1, 3: -8, -1: 4, -2: public}), false},
		"RSA of 1,024 bits": {rsaKey(modulus[:128], 1, 0, 1), false}, "RSA of 2,047 bits": {rsaKey(append([]byte{0x7f}, modulus[1:]...), 1, 0, 1), false},
		"RSA of 4,104 bits": {rsaKey(append(bytes.Repeat([]byte{0xff}, 512), 1), 1, 0, 1), false}, "RSA, even modulus": {rsaKey(even, 1, 0, 1), false},
		"RSA, exponent 1": {rsaKey(modulus, 1), false}, "RSA, exponent 0": {rsaKey(modulus, 0), false}, "RSA without exponent": {rsaKey(modulus), false},
		"RSA, even exponent": {rsaKey(modulus, 1, 0, 0), false}, "RSA, exponent of 33 bits": {rsaKey(modulus, 1, 0, 0, 0, 1), false},
		"RSA, padded exponent": {rsaKey(modulus, 0, 3), false}, "RSA, padded modulus": {rsaKey(append([]byte{0}, modulus...), 3), false},
		"PS256": {encode(t, map[int]any{1: 3, 3: -37, -1: modulus, -2: []byte{1, 0, 1}}), false},
	} {
		if err := ValidateKey(tt.cose); err == nil != tt.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEd25519KeysOfSmallOrderAreInvalid(t *testing.T) {
	t.Parallel()
	number := func(text string) *big.Int {
		n, _ := new(big.Int).SetString(text, 16)
		return n
	}
	prime := number(edPrime)
	for name, y := range map[string]*big.Int{
		"order 1": big.NewInt(1), "order 2": new(big.Int).Sub(prime, big.NewInt(1)),
		"order 4": new(big.Int), "order 8": number(edEight), "order 8, negated": number(edEight2),
		"not reduced": prime, "not on the curve": big.NewInt(2),
	} {
		for _, sign := range []byte{0, 0x80} {
			raw := y.FillBytes(make([]byte, 32))
			slices.Reverse(raw)
			raw[31] |= sign
			if ValidateKey(encode(t, map[int]any{1: 1, 3: -8, -1: 6, -2: raw})) == nil {
				t.Errorf("%s, sign %x was accepted", name, sign)
			}
		}
	}
	// d = -121665/121666, and 8 times a point of order 8 is the identity: its y is a root of d*y^4 + 2*y^2 - 1.
	d := number(edD)
	if new(big.Int).Mod(new(big.Int).Add(new(big.Int).Mul(d, big.NewInt(121666)), big.NewInt(121665)), prime).Sign() != 0 {
		t.Error("d is wrong")
	}
	for _, text := range []string{edEight, edEight2} {
		square := new(big.Int).Exp(number(text), big.NewInt(2), prime)
		sum := new(big.Int).Mul(d, new(big.Int).Mul(square, square))
		sum.Add(sum, new(big.Int).Lsh(square, 1)).Sub(sum, big.NewInt(1))
		if sum.Mod(sum, prime).Sign() != 0 {
			t.Errorf("%s is not of order 8", text)
		}
	}
	for range 200 {
		public, _, err := ed25519.GenerateKey(rand.Reader)
		if err != nil || !sound(public) {
			t.Fatalf("the key %x was refused, %v", public, err)
		}
	}
}

func TestOptionsHaveTheStandardsForm(t *testing.T) {
	t.Parallel()
	challenge, handle := []byte{0xfb, 0xff}, bytes.Repeat([]byte{0xff}, 32)
	user := User{handle, "ada@acme.example", "Ada"}
	others := []Descriptor{{[]byte{1, 2, 3}, []string{"hybrid", "internal"}}, {[]byte{4}, nil}}
	create := func(kind Kind, excluded []Descriptor) func() (json.RawMessage, error) {
		return func() (json.RawMessage, error) { return CreationOptions(acme(), challenge, user, kind, excluded) }
	}
	get := func(allowed []Descriptor, requireUV bool) func() (json.RawMessage, error) {
		return func() (json.RawMessage, error) { return RequestOptions(acme(), challenge, allowed, requireUV) }
	}
	const (
		head = `{"rp":{"name":"Acme","id":"acme.example"},` +
			`"user":{"name":"ada@acme.example","displayName":"Ada","id":"__________________________________________8"},"challenge":"-_8",`
		keys  = `"pubKeyCredParams":[{"type":"public-key","alg":-8},{"type":"public-key","alg":-7},{"type":"public-key","alg":-257}],"timeout":300000,`
		named = `[{"type":"public-key","id":"AQID","transports":["hybrid","internal"]},{"type":"public-key","id":"BA"}]`
	)
	for name, tt := range map[string]struct {
		got  func() (json.RawMessage, error)
		want string
	}{
		"passkey": {create(KindPasskey, nil), head + keys +
			`"authenticatorSelection":{"requireResidentKey":true,"residentKey":"required","userVerification":"required"},"attestation":"none"}`},
		"security key": {create(KindSecurityKey, others), head + keys + `"excludeCredentials":` + named +
			`,"authenticatorSelection":{"requireResidentKey":false,"residentKey":"discouraged","userVerification":"discouraged"},"attestation":"none"}`},
		"sign-in": {get(nil, true),
			`{"challenge":"-_8","timeout":300000,"rpId":"acme.example","userVerification":"required"}`},
		"second factor": {get(others, false),
			`{"challenge":"-_8","timeout":300000,"rpId":"acme.example","allowCredentials":` + named + `,"userVerification":"discouraged"}`},
	} {
		if got, err := tt.got(); err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, tt.want)
		}
	}
	if handle, err := NewUserHandle(rand.Reader); err != nil || len(handle) != UserHandleBytes {
		t.Errorf("user handle: %d bytes, %v", len(handle), err)
	}
}

func TestErrorsNameTheMember(t *testing.T) {
	t.Parallel()
	_, err := ParseAssertion(json.RawMessage(`{"id":"AQ","rawId":"AQ","type":"public-key","response":{"clientDataJSON":"secret!"}}`))
	var malformed *MalformedError
	if !errors.As(err, &malformed) || malformed.Pointer != "/response/clientDataJSON" || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

// checkParsed checks what every parsed answer has.
func checkParsed(t *testing.T, id []byte, err error) {
	var malformed *MalformedError
	switch {
	case err != nil && !errors.As(err, &malformed):
		t.Fatalf("%T: %v", err, err)
	case err == nil && (len(id) == 0 || len(id) > MaxIDBytes):
		t.Fatalf("an id of %d bytes", len(id))
	}
}

func FuzzParseAssertion(f *testing.F) {
	a := newAnswer(f, "webauthn.get", []byte{1}, newES256(f))
	f.Add([]byte(a.assertion(f)))
	a.flags, a.extensions = a.flags|flagED, []byte{0xa1, 0x61, 'x', 1}
	f.Add([]byte(a.assertion(f)))
	c := challenges(f, 1)
	f.Fuzz(func(t *testing.T, raw []byte) {
		parsed, err := ParseAssertion(raw)
		if err != nil {
			checkParsed(t, nil, err)
			return
		}
		checkParsed(t, parsed.CredentialID, nil)
		for _, accept := range []challengeCheck{c.check(request(second)), func([]byte) (Spent, error) { return Spent{}, nil }} {
			if _, err := verifyAssertion(parsed, Decoy(), request(second), accept); err == nil {
				t.Fatal("an assertion of the decoy was accepted")
			}
		}
	})
}

func FuzzParseAttestation(f *testing.F) {
	for _, key := range []signer{newES256(f), newEd25519(f)} {
		a := newAnswer(f, "webauthn.create", []byte{1}, key)
		a.attest([16]byte{}, a.id, key.cose)
		f.Add([]byte(a.attestation(f, "none", map[string]any{})))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		parsed, err := ParseAttestation(raw)
		if err != nil {
			checkParsed(t, nil, err)
			return
		}
		checkParsed(t, parsed.CredentialID, nil)
		credential, _, err := register(parsed, request(registration), func([]byte) (Spent, error) { return Spent{}, nil })
		if err == nil && ValidateKey(credential.PublicKey) != nil {
			t.Fatalf("the key %x was registered", credential.PublicKey)
		}
		resultOf(t, err)
	})
}

func FuzzValidateKey(f *testing.F) {
	for _, key := range []signer{newES256(f), newEd25519(f), newRS256(f)} {
		f.Add(key.cose)
	}
	f.Fuzz(func(t *testing.T, cose []byte) {
		if ValidateKey(cose) == nil {
			if key, err := parseKey(cose); err != nil || verifySignature(key, []byte("message"), make([]byte, 64)) {
				t.Fatalf("%x: %v", cose, err)
			}
		}
	})
}
