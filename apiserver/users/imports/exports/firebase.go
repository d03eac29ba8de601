package exports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// firebaseUser is a user in the format of `firebase auth:export`.
type firebaseUser struct {
	LocalID       string `json:"localId"`
	Email         string `json:"email"`
	EmailVerified bool   `json:"emailVerified"`
	PasswordHash  string `json:"passwordHash"`
	Salt          string `json:"salt"`
	DisplayName   string `json:"displayName"`
	CreatedAt     string `json:"createdAt"`
	Disabled      bool   `json:"disabled"`
	PhoneNumber   string `json:"phoneNumber"`
	Providers     []struct {
		ProviderID string          `json:"providerId"`
		RawID      json.RawMessage `json:"rawId"`
		Email      json.RawMessage `json:"email"`
	} `json:"providerUserInfo"`
	SecondFactors    []json.RawMessage `json:"mfaInfo"`
	CustomAttributes string            `json:"customAttributes"`
}

// firebaseHash is the password hash parameters of a project.
type firebaseHash struct{ signer, separator, rounds, memCost string }

// firebase reads the JSON of `firebase auth:export` together with a file of the password hash parameters as the console
// shows them.
func firebase(files []File, to *Lines) error {
	var hash *firebaseHash
	var exports []File
	for _, f := range files {
		head, err := headOf(f)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(head, []byte("hash_config")) {
			exports = append(exports, f)
			continue
		}
		to.at = Source{File: f.Name}
		if hash, err = readFirebaseHash(f); err != nil {
			return to.broken(err)
		}
	}
	for _, f := range exports {
		err := users(f, to, func(u *firebaseUser) error { return to.firebaseUser(u, hash) })
		if err != nil {
			return err
		}
	}
	return nil
}

var firebaseParameter = regexp.MustCompile(`(?m)^\s*(\w+):\s*([^,\s]+),?\s*$`)

func readFirebaseHash(text io.Reader) (*firebaseHash, error) {
	raw, err := io.ReadAll(io.LimitReader(text, 64<<10))
	if err != nil {
		return nil, err
	}
	sent := map[string]string{}
	for _, match := range firebaseParameter.FindAllSubmatch(raw, -1) {
		sent[string(match[1])] = string(match[2])
	}
	hash := &firebaseHash{sent["base64_signer_key"], sent["base64_salt_separator"], sent["rounds"], sent["mem_cost"]}
	if sent["algorithm"] != "SCRYPT" || hash.signer == "" || hash.rounds == "" || hash.memCost == "" {
		return nil, errors.New("is not a hash_config with algorithm SCRYPT, base64_signer_key, base64_salt_separator, rounds and mem_cost")
	}
	return hash, nil
}

func (l *Lines) firebaseUser(u *firebaseUser, hash *firebaseHash) error {
	p := person{id: u.LocalID, disabled: u.Disabled}
	p.firstName, p.lastName, _ = strings.Cut(strings.TrimSpace(u.DisplayName), " ")
	if created, err := strconv.ParseInt(u.CreatedAt, 10, 64); err == nil {
		p.created = millis(created)
	}
	if u.Email != "" {
		p.emails = []address{{value: u.Email, verified: u.EmailVerified}}
	}
	if u.PhoneNumber != "" {
		p.phones = []address{{value: u.PhoneNumber, verified: true}} // Firebase only has verified numbers
	}
	switch {
	case u.PasswordHash == "":
	case hash == nil:
		l.leave("a password, because the file with the hash_config is missing")
	default:
		p.password = fmt.Sprintf("$firescrypt$ln=%s,r=%s,p=1$%s$%s$%s$%s", hash.memCost, hash.rounds, plain(u.Salt), plain(u.PasswordHash), hash.separator, hash.signer)
	}
	for _, provider := range u.Providers {
		if provider.ProviderID != "password" && provider.ProviderID != "phone" {
			p.logins = append(p.logins, login{names: []string{provider.ProviderID}, subject: textOrNumber(provider.RawID), email: textOrNumber(provider.Email)})
		}
	}
	l.firebaseFactors(u, &p)
	if u.CustomAttributes != "" && u.CustomAttributes != "{}" {
		l.leave("custom claims")
	}
	return l.person(p)
}

// firebaseFactors adds the numbers that are second factors, each of which Firebase has verified.
func (l *Lines) firebaseFactors(u *firebaseUser, p *person) {
	for _, raw := range u.SecondFactors {
		var factor struct {
			Phone string          `json:"phoneInfo"`
			TOTP  json.RawMessage `json:"totpInfo"`
		}
		switch {
		case json.Unmarshal(raw, &factor) != nil:
			l.leave(unreadableFactor)
		case factor.Phone != "":
			p.phones = withText(p.phones, factor.Phone)
		case factor.TOTP != nil:
			l.leave("an authenticator app, whose secret Firebase does not export")
		default:
			l.leave(otherFactor)
		}
	}
}

// plain converts URL base64 to standard base64.
func plain(text string) string { return strings.NewReplacer("-", "+", "_", "/").Replace(text) }
