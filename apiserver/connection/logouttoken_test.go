package connection

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// logoutToken returns a right logout token with changed claims and a type, "" for none.
func (s *signer) logoutToken(kind string, changes map[string]any) string {
	all := map[string]any{
		"iss": testIssuer, "aud": testClient, "sub": "person-1", "sid": "session-1", "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": "1",
		"events": map[string]any{logoutEvent: map[string]any{}},
	}
	for name, value := range changes {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	payload, err := json.Marshal(all)
	if err != nil {
		s.t.Fatal(err)
	}
	header := map[jose.HeaderKey]any{"kid": "k1"}
	if kind != "" {
		header["typ"] = kind
	}
	return s.sign(payload, s.key, jose.RS256, header)
}

func verifyLogout(s *signer, raw string) (Logout, error) {
	c := oidcConnection()
	c.Client.ID = testClient
	return VerifyLogoutToken(context.Background(), c, raw, s.keys, now)
}

func TestLogoutTokensAreAcceptedWithTheirTypeOrWithout(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for _, kind := range []string{"logout+jwt", "LOGOUT+JWT", "JWT", ""} {
		got, err := verifyLogout(s, s.logoutToken(kind, nil))
		if err != nil || got.Subject != "person-1" || got.SessionID != "session-1" || got.TokenID != "1" || got.Issuer != testIssuer {
			t.Errorf("type %q: %+v, %v", kind, got, err)
		}
	}
	for name, changes := range map[string]map[string]any{"a subject alone": {"sid": nil}, "a session alone": {"sub": nil}, "no expiry": {"exp": nil}} {
		if got, err := verifyLogout(s, s.logoutToken("logout+jwt", changes)); err != nil || got.Subject == "" && got.SessionID == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestOtherTokensEndNoSession(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	for name, tc := range map[string]struct{ raw, want string }{
		"an ID token":               {s.token(nil), ReasonEvents},
		"an access token":           {s.logoutToken("at+jwt", nil), ReasonLogoutForm},
		"another type":              {s.logoutToken("dpop+jwt", nil), ReasonLogoutForm},
		"no token":                  {"x", ReasonLogoutForm},
		"a nonce":                   {s.logoutToken("logout+jwt", map[string]any{"nonce": testNonce}), ReasonNonce},
		"no events":                 {s.logoutToken("logout+jwt", map[string]any{"events": nil}), ReasonEvents},
		"events as a list":          {s.logoutToken("logout+jwt", map[string]any{"events": []string{logoutEvent}}), ReasonEvents},
		"another event":             {s.logoutToken("logout+jwt", map[string]any{"events": map[string]any{"x": map[string]any{}}}), ReasonEvents},
		"no id":                     {s.logoutToken("logout+jwt", map[string]any{"jti": nil}), ReasonTokenID},
		"a long id":                 {s.logoutToken("logout+jwt", map[string]any{"jti": strings.Repeat("x", maxTokenID+1)}), ReasonTokenID},
		"neither subject nor sid":   {s.logoutToken("logout+jwt", map[string]any{"sub": nil, "sid": nil}), ReasonSubject},
		"an empty subject":          {s.logoutToken("logout+jwt", map[string]any{"sub": ""}), ReasonSubject},
		"another audience":          {s.logoutToken("logout+jwt", map[string]any{"aud": "x"}), ReasonAudience},
		"another issuer":            {s.logoutToken("logout+jwt", map[string]any{"iss": "https://evil.example"}), ReasonIssuer},
		"expired":                   {s.logoutToken("logout+jwt", map[string]any{"exp": now.Add(-skew).Unix()}), ReasonExpired},
		"no time":                   {s.logoutToken("logout+jwt", map[string]any{"iat": nil}), ReasonIssuedAt},
		"older than the age":        {s.logoutToken("logout+jwt", map[string]any{"iat": now.Add(-maxAge - skew - time.Second).Unix()}), ReasonIssuedAt},
		"a key of another provider": {newSigner(t).logoutToken("logout+jwt", nil), ReasonSignature},
	} {
		expectFault(t, name, tc.want, func() error { _, err := verifyLogout(s, tc.raw); return err })
	}
}
