package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

var (
	// errorCode matches the error codes of providers that are shown to admins.
	errorCode = regexp.MustCompile(`^[a-z_]{1,64}$`)
	// opaque matches access tokens (RFC 6749 A.12).
	opaque = regexp.MustCompile(`^[ -~]+$`)
	// plainType matches media types that are shown to admins.
	plainType = regexp.MustCompile(`^[a-z0-9.+/-]{1,64}$`)
)

// Redeem redeems a code for tokens, within 10 s. It sends the code at most once. It returns ErrUnavailable or a
// *connection.Fault with the provider's error code.
func (p *Providers) Redeem(ctx context.Context, c Connection, r Redemption) (Tokens, error) {
	metadata, err := p.Metadata(ctx, c)
	if err != nil {
		return Tokens{}, err
	}
	secret, err := p.secret(c)
	if err != nil {
		return Tokens{}, err
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {r.Code}, "redirect_uri": {r.RedirectURI}, "code_verifier": {r.Verifier},
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if err := authenticate(c.Connection, metadata.TokenURL, secret, form, header, p.Clock()); err != nil {
		return Tokens{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, metadata.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return Tokens{}, fail(invalidMetadata, "%q is no URL", clip(metadata.TokenURL, 200))
	}
	request.Header = header
	got, err := p.send(ctx, c, request)
	var tokens Tokens
	if err == nil {
		tokens, err = tokensIn(got, c.Type == typeGitHub)
	}
	p.metrics.count(kindToken, err)
	return tokens, err
}

// send sends a request of a sign-in when it is the deployment's turn, within requestWithin.
func (p *Providers) send(ctx context.Context, c Connection, r *http.Request) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	done, err := p.slots.Begin(ctx, c.asker())
	if err != nil {
		p.throttled.Add(1)
		return answer{}, fmt.Errorf("%w: %w", ErrUnavailable, egress.ErrTooManyFetches)
	}
	defer done()
	return p.web.do(ctx, r, maxAnswer)
}

// refusal returns why an answer is not one of status 200 with a JSON object: a *failure or a *connection.Fault, and nil
// if it is one.
func refusal(got answer, host, reason string) error {
	switch kind := mediaType(got.header); {
	case isBusy(got.status):
		return fail(unreachable, "%s answers %s", host, status(got.status))
	case got.status != http.StatusOK:
		return &connection.Fault{Reason: reason, Got: codeIn(got.body, status(got.status))}
	case got.body == nil:
		return &connection.Fault{Reason: reason, Got: fmt.Sprintf("more than %d bytes", maxAnswer)}
	case kind != "application/json" && plainType.MatchString(kind):
		return &connection.Fault{Reason: reason, Got: kind, Expected: "application/json"}
	case kind != "application/json":
		return &connection.Fault{Reason: reason, Got: "no media type", Expected: "application/json"}
	}
	return nil
}

// codeIn returns the error code of an OAuth error response (RFC 6749 5.2), and otherwise if it has none.
func codeIn(body []byte, otherwise string) string {
	var stated struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &stated) == nil && errorCode.MatchString(stated.Error) {
		return stated.Error
	}
	return otherwise
}

// tokensIn reads the answer of a token endpoint. GitHub answers errors with status 200, and has no ID tokens.
func tokensIn(got answer, gitHub bool) (Tokens, error) {
	if err := refusal(got, "the token endpoint", connection.ReasonTokens); err != nil {
		return Tokens{}, err
	}
	var stated struct {
		AccessToken string `json:"access_token"`
		IDToken     string `json:"id_token"`
	}
	if code := codeIn(got.body, ""); code != "" {
		return Tokens{}, &connection.Fault{Reason: connection.ReasonTokens, Got: code}
	}
	switch err := json.Unmarshal(got.body, &stated); {
	case err != nil:
		return Tokens{}, &connection.Fault{Reason: connection.ReasonTokens, Got: "no valid JSON object"}
	case !opaque.MatchString(stated.AccessToken):
		return Tokens{}, &connection.Fault{Reason: connection.ReasonTokens, Got: "no access_token"}
	case stated.IDToken == "" && !gitHub:
		return Tokens{}, &connection.Fault{Reason: connection.ReasonTokens, Got: "no id_token"}
	}
	return Tokens{AccessToken: stated.AccessToken, IDToken: stated.IDToken}, nil
}
