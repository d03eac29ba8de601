package foreign

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/sha1" //nolint:gosec // other systems use it
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

// The limits of the parameters of imported hashes.
const (
	maxArgonMemory, maxArgonPasses, maxArgonLanes = 131072, 10, 16
	minBcrypt, maxBcrypt                          = 4, 14
	// bcryptCounts is how many bytes of a password bcrypt uses.
	bcryptCounts                   = 72
	bcryptLength                   = 60
	maxLogN, maxScryptLanes, maxR  = 17, 4, 64
	maxIterations                  = 2_000_000
	firebaseDerived                = 32
	bcryptAlphabet                 = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	argonVersion                   = "v=19"
	argonParts, scryptParts        = 6, 5
	firebaseParts, djangoPartCount = 7, 4
)

// parseArgon2id parses $argon2id$v=19$m=,t=,p=$salt$hash.
func parseArgon2id(parts []string) (*Hash, error) {
	if len(parts) != argonParts || parts[2] != argonVersion {
		return nil, ErrForm
	}
	n, ok1 := settings(parts[3], setting{"m", maxArgonMemory}, setting{"t", maxArgonPasses}, setting{"p", maxArgonLanes})
	salt, ok2 := bytesOf(parts[4], 1, maxSalt)
	want, ok3 := bytesOf(parts[5], minHash, maxHash)
	if !ok1 || !ok2 || !ok3 || n[0] < 8*n[2] {
		return nil, ErrForm
	}
	return &Hash{Memory: int64(n[0]) << 10, want: want, derive: func(password []byte) []byte {
		return argon2.IDKey(password, salt, uint32(n[1]), uint32(n[0]), uint8(n[2]), uint32(len(want)))
	}}, nil
}

// parseBcrypt parses $2a$, $2b$ and $2y$: the cost in two digits, then salt and hash in 53 characters of bcrypt's
// alphabet.
func parseBcrypt(encoded string) (*Hash, error) {
	if len(encoded) != bcryptLength || encoded[6] != '$' || strings.Trim(encoded[7:], bcryptAlphabet) != "" {
		return nil, ErrForm
	}
	cost, err := bcrypt.Cost([]byte(encoded))
	if err != nil || cost < minBcrypt || cost > maxBcrypt {
		return nil, ErrForm
	}
	return &Hash{want: []byte{1}, derive: func(password []byte) []byte {
		if bcrypt.CompareHashAndPassword([]byte(encoded), password[:min(len(password), bcryptCounts)]) == nil {
			return []byte{1}
		}
		return []byte{0}
	}}, nil
}

// scryptCosts parses ln=,r=,p=.
func scryptCosts(text string, maxLanes int) (logN, r, p int, ok bool) {
	n, ok := settings(text, setting{"ln", maxLogN}, setting{"r", maxR}, setting{"p", maxLanes})
	if !ok || scryptMemory(n[0], n[1], n[2]) > maxMemory+ScryptOverhead {
		return 0, 0, 0, false
	}
	return n[0], n[1], n[2], true
}

// ScryptOverhead is the maximum memory, in bytes, that scrypt uses in addition to its table: one block for each lane,
// and two working blocks.
const ScryptOverhead = 128 * maxR * (maxScryptLanes + 2)

func scryptMemory(logN, r, p int) int64 { return 128 * int64(r) * (1<<logN + int64(p) + 2) }

// parseScrypt parses $scrypt$ln=,r=,p=$salt$hash.
func parseScrypt(parts []string) (*Hash, error) {
	if len(parts) != scryptParts {
		return nil, ErrForm
	}
	logN, r, p, ok1 := scryptCosts(parts[2], maxScryptLanes)
	salt, ok2 := bytesOf(parts[3], 1, maxSalt)
	want, ok3 := bytesOf(parts[4], minHash, maxHash)
	if !ok1 || !ok2 || !ok3 {
		return nil, ErrForm
	}
	return &Hash{Memory: scryptMemory(logN, r, p), want: want, derive: func(password []byte) []byte {
		key, _ := scrypt.Key(password, salt, 1<<logN, r, p, len(want)) // the costs are valid: Key returns no error
		return key
	}}, nil
}

// parseFirebase parses $firescrypt$ln=,r=,p=1$salt$hash$separator$signerkey. The hash is the signer key, encrypted with
// a key that scrypt derives.
func parseFirebase(parts []string) (*Hash, error) {
	if len(parts) != firebaseParts {
		return nil, ErrForm
	}
	logN, r, p, ok1 := scryptCosts(parts[2], 1)
	salt, ok2 := bytesOf(parts[3], 1, maxSalt)
	want, ok3 := bytesOf(parts[4], minHash, maxHash)
	separator, ok4 := bytesOf(parts[5], 0, maxSalt)
	signer, ok5 := bytesOf(parts[6], minHash, maxHash)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || len(signer) != len(want) {
		return nil, ErrForm
	}
	salt = append(salt, separator...)
	return &Hash{Memory: scryptMemory(logN, r, p), want: want, derive: func(password []byte) []byte {
		key, _ := scrypt.Key(password, salt, 1<<logN, r, p, firebaseDerived)
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil
		}
		sealed := make([]byte, len(signer))
		cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(sealed, signer)
		return sealed
	}}, nil
}

// parsePBKDF2 parses $pbkdf2-sha256$i=$salt$hash, also for sha1 and sha512.
func parsePBKDF2(parts []string) (*Hash, error) {
	if len(parts) != scryptParts {
		return nil, ErrForm
	}
	n, ok1 := settings(parts[2], setting{"i", maxIterations})
	salt, ok2 := bytesOf(parts[3], 1, maxSalt)
	want, ok3 := bytesOf(parts[4], minHash, maxHash)
	if !ok1 || !ok2 || !ok3 {
		return nil, ErrForm
	}
	digest := map[string]func() hash.Hash{"pbkdf2-sha1": sha1.New, "pbkdf2-sha256": sha256.New, "pbkdf2-sha512": sha512.New}[parts[1]]
	return stretched(digest, n[0], salt, want), nil
}

// parseDjango parses pbkdf2_sha256$i$salt$hash, whose salt is plain text.
func parseDjango(parts []string) (*Hash, error) {
	if len(parts) != djangoPartCount {
		return nil, ErrForm
	}
	n, ok1 := number(parts[1], maxIterations)
	want, ok2 := bytesOf(parts[3], minHash, maxHash)
	salt := parts[2]
	if !ok1 || !ok2 || salt == "" || len(salt) > maxSalt || strings.ContainsFunc(salt, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, ErrForm
	}
	return stretched(sha256.New, n, []byte(salt), want), nil
}

func stretched(digest func() hash.Hash, iterations int, salt, want []byte) *Hash {
	return &Hash{want: want, derive: func(password []byte) []byte {
		key, _ := pbkdf2.Key(digest, string(password), salt, iterations, len(want)) // the length is valid: Key returns no error
		return key
	}}
}
