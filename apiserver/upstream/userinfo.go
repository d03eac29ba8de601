package upstream

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

const (
	// emailsOfPage and maxEmailPages bound the emails that are read of a GitHub user.
	emailsOfPage, maxEmailPages = 100, 5
	// gitHubVersion is the version of GitHub's API.
	gitHubVersion = "2022-11-28"
)

// Userinfo returns the claims of the userinfo endpoint, whose sub must be subject: the claim sub of the ID token. For
// GitHub, subject is "", and the claims are made of the user and the user's emails: sub is the decimal id, and email is
// there only if it is the primary one and verified. It returns ErrUnavailable or a *connection.Fault.
func (p *Providers) Userinfo(ctx context.Context, c Connection, accessToken, subject string) (map[string]any, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	metadata, err := p.Metadata(ctx, c)
	switch {
	case err != nil:
		return nil, err
	case metadata.UserinfoURL == "":
		return nil, &connection.Fault{Reason: connection.ReasonUserinfo, Got: "no userinfo_endpoint"}
	case c.Type == typeGitHub:
		return p.gitHubUser(ctx, c, metadata.UserinfoURL, accessToken)
	}
	var claims map[string]any
	if _, err := p.read(ctx, c, metadata.UserinfoURL, accessToken, &claims); err != nil {
		return nil, err
	}
	if stated, _ := claims["sub"].(string); stated != subject || subject == "" {
		return nil, &connection.Fault{Reason: connection.ReasonUserinfoSubject, Got: clip(stated, 255), Expected: subject}
	}
	return claims, nil
}

// read reads a JSON answer with an access token. It also returns the answer if that is not accepted.
func (p *Providers) read(ctx context.Context, c Connection, address, accessToken string, into any) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answer{}, fail(invalidMetadata, "%q is no URL", clip(address, 200))
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Authorization", "Bearer "+accessToken)
	if c.Type == typeGitHub {
		r.Header.Set("X-GitHub-Api-Version", gitHubVersion)
	}
	got, err := p.send(ctx, c, r)
	if err == nil {
		err = refusal(got, "the userinfo endpoint", connection.ReasonUserinfo)
	}
	if err == nil && json.Unmarshal(got.body, into) != nil {
		err = &connection.Fault{Reason: connection.ReasonUserinfo, Got: "no valid JSON"}
	}
	if isSpent(got) {
		err = fail(unreachable, "the userinfo endpoint answers that its rate limit is reached")
	}
	p.metrics.count(kindUserinfo, err)
	return got, err
}

// isSpent reports whether GitHub refuses a request because of its rate limit, which it does with 403.
func isSpent(got answer) bool {
	return got.status == http.StatusForbidden && (got.header.Get("X-RateLimit-Remaining") == "0" || got.header.Get("Retry-After") != "")
}

// gitHubUser returns a GitHub user as claims.
func (p *Providers) gitHubUser(ctx context.Context, c Connection, address, accessToken string) (map[string]any, error) {
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
		Name  string `json:"name"`
	}
	if _, err := p.read(ctx, c, address, accessToken, &user); err != nil {
		return nil, err
	}
	if user.ID <= 0 {
		return nil, &connection.Fault{Reason: connection.ReasonUserinfoSubject, Got: "no id"}
	}
	email, err := p.gitHubEmail(ctx, c, address+"/emails", accessToken)
	if err != nil {
		return nil, err
	}
	claims := map[string]any{"sub": strconv.FormatInt(user.ID, 10), "preferred_username": user.Login}
	if name := strings.TrimSpace(user.Name); name != "" {
		claims["name"] = name
		if first, last, found := strings.Cut(name, " "); found {
			claims["given_name"], claims["family_name"] = first, strings.TrimSpace(last)
		} else {
			claims["given_name"] = name
		}
	}
	if email != "" {
		claims["email"], claims["email_verified"] = email, true
	}
	return claims, nil
}

// gitHubEmail returns the email of a user that is primary and verified, "" if there is none, or if the user or the
// connection's scopes do not permit reading emails, which GitHub answers with 403 or 404.
func (p *Providers) gitHubEmail(ctx context.Context, c Connection, address, accessToken string) (string, error) {
	for page := range maxEmailPages {
		var emails []struct {
			Email    string `json:"email"`
			Primary  bool   `json:"primary"`
			Verified bool   `json:"verified"`
		}
		got, err := p.read(ctx, c, address+"?per_page="+strconv.Itoa(emailsOfPage)+"&page="+strconv.Itoa(page+1), accessToken, &emails)
		switch {
		case (got.status == http.StatusForbidden || got.status == http.StatusNotFound) && !isSpent(got):
			return "", nil
		case err != nil:
			return "", err
		}
		for _, e := range emails {
			if e.Primary {
				if e.Verified {
					return e.Email, nil
				}
				return "", nil
			}
		}
		if len(emails) < emailsOfPage {
			break
		}
	}
	return "", nil
}
