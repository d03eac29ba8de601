package passkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"math/big"

	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

// The accepted signature algorithms (RFC 9053, RFC 8812).
const (
	algorithmEdDSA = -8
	algorithmES256 = -7
	algorithmRS256 = -257
)

// The key types and curves that belong to them (RFC 9053 7).
const (
	typeOKP, typeEC2, typeRSA = 1, 2, 3
	curveP256, curveEd25519   = 1, 6
)

// The accepted sizes of RSA moduli, in bits, and the largest exponent.
const (
	minModulus, maxModulus = 2048, 4096
	maxExponent            = 1<<31 - 1
)

// coseKey is a COSE_Key (RFC 9052 7). Other members are ignored.
type coseKey struct {
	Type      int64 `cbor:"1,keyasint"`
	Algorithm int64 `cbor:"3,keyasint"`
	// First is the curve, or the modulus of an RSA key.
	First webauthncbor.RawMessage `cbor:"-1,keyasint"`
	// Second is the x coordinate, or the exponent of an RSA key.
	Second []byte `cbor:"-2,keyasint"`
	// Third is the y coordinate.
	Third []byte `cbor:"-3,keyasint"`
}

var (
	errAlgorithm = errors.New("the public key's algorithm must be -8 (EdDSA), -7 (ES256) or -257 (RS256), with a key of its type")
	errKey       = errors.New("the public key is not well-formed")
)

// ValidateKey returns an error unless a COSE_Key is one CBOR item with a well-formed key of an accepted algorithm:
//  1. EdDSA (-8): a point of Ed25519 that is not of small order.
//  2. ES256 (-7): a point of P-256.
//  3. RS256 (-257): a modulus of 2,048 to 4,096 bits and an odd exponent from 3 to 2^31-1.
func ValidateKey(cose []byte) error {
	key, err := parseKey(cose)
	if err != nil {
		return err
	}
	if key, ok := key.(ed25519.PublicKey); ok && !sound(key) {
		return errKey
	}
	return nil
}

// parseKey returns an ed25519.PublicKey, *ecdsa.PublicKey or *rsa.PublicKey.
func parseKey(cose []byte) (crypto.PublicKey, error) {
	var key coseKey
	if err := webauthncbor.Unmarshal(cose, &key); err != nil {
		return nil, errKey
	}
	switch {
	case key.Algorithm == algorithmES256 && key.Type == typeEC2:
		const size = 32
		if !key.onCurve(curveP256) || len(key.Second) != size || len(key.Third) != size {
			return nil, errKey
		}
		point := append(append(append(make([]byte, 0, 1+2*size), 4), key.Second...), key.Third...)
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		if err != nil {
			return nil, errKey
		}
		return public, nil
	case key.Algorithm == algorithmEdDSA && key.Type == typeOKP:
		if !key.onCurve(curveEd25519) || len(key.Second) != ed25519.PublicKeySize {
			return nil, errKey
		}
		return ed25519.PublicKey(key.Second), nil
	case key.Algorithm == algorithmRS256 && key.Type == typeRSA:
		return key.rsa()
	}
	return nil, errAlgorithm
}

// onCurve reports whether the key names a curve.
func (k *coseKey) onCurve(want int64) bool {
	var curve int64
	return len(k.First) > 0 && webauthncbor.Unmarshal(k.First, &curve) == nil && curve == want
}

// rsa returns the key's RSA key (RFC 8230 4). Its integers have no leading zero bytes.
func (k *coseKey) rsa() (crypto.PublicKey, error) {
	var modulus []byte
	if len(k.First) == 0 || webauthncbor.Unmarshal(k.First, &modulus) != nil || len(modulus) == 0 || modulus[0] == 0 || len(k.Second) == 0 || k.Second[0] == 0 {
		return nil, errKey
	}
	n, e := new(big.Int).SetBytes(modulus), new(big.Int).SetBytes(k.Second)
	if n.BitLen() < minModulus || n.BitLen() > maxModulus || n.Bit(0) == 0 || e.BitLen() > 31 || e.Int64() < 3 || e.Int64() > maxExponent || e.Bit(0) == 0 {
		return nil, errKey
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, nil
}

// verifySignature reports whether a signature over a message is valid. An ES256 signature must be canonical DER, which
// ecdsa.VerifyASN1 requires.
func verifySignature(key crypto.PublicKey, message, signature []byte) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		return ecdsa.VerifyASN1(key, digest[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		digest := sha256.Sum256(message)
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
	}
	return false
}

// Hexadecimal constants of Ed25519 (RFC 8032 5.1): the field's prime, the curve's d, and the y coordinates of the
// points of order 8.
const (
	edPrime  = "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed"
	edD      = "52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3"
	edEight  = "05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826"
	edEight2 = "7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7"
)

// sound reports whether an Ed25519 key is the canonical form of a point of the curve whose order is not small. For a
// point of small order, anyone can sign.
func sound(key ed25519.PublicKey) bool {
	number := func(text string) *big.Int {
		n, _ := new(big.Int).SetString(text, 16)
		return n
	}
	p, one := number(edPrime), big.NewInt(1)
	reversed := make([]byte, len(key))
	for i, b := range key {
		reversed[len(key)-1-i] = b
	}
	reversed[0] &= 0x7f // the sign of x
	y := new(big.Int).SetBytes(reversed)
	if y.Cmp(p) >= 0 {
		return false
	}
	// The points of orders 4, 1, 2 and 8.
	for _, small := range []*big.Int{new(big.Int), one, new(big.Int).Sub(p, one), number(edEight), number(edEight2)} {
		if y.Cmp(small) == 0 {
			return false
		}
	}
	// x^2 = (y^2-1) / (d*y^2+1) must have a root, and then so must the product.
	square := new(big.Int).Mul(y, y)
	above := new(big.Int).Sub(square, one)
	below := square.Mul(square, number(edD))
	below.Add(below, one)
	return big.Jacobi(above.Mul(above, below).Mod(above, p), p) == 1
}
