package oauth

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// tellEvery is how often it is looked for sign-ins that ended, and tellAtOnce how many of a deployment one transaction takes.
	tellEvery, tellAtOnce = time.Second, 100
	// logoutTokenLifetime is how long a logout token is good, and tried to be handed over.
	logoutTokenLifetime = 2 * time.Minute
	typeLogoutToken     = "logout+jwt"
	logoutEvent         = "http://schemas.openid.net/event/backchannel-logout"
)

// logoutClaims are what a logout token says (OpenID Connect Back-Channel Logout 1.0, 2.4).
type logoutClaims struct {
	jwt.Claims
	SessionID string              `json:"sid"`
	Events    map[string]struct{} `json:"events"`
}

// Run tells clients of sign-ins that ended until ctx ends: by messages of the outbox, which tries them again.
func (s *Server) Run(ctx context.Context) error {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		waiting, err := s.Store.LogoutsWaiting(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.V(1).Info("It is not known which sign-ins ended; trying again", "reason", err.Error())
		}
		for _, deployment := range waiting { // each for itself: what one tenant's rows or keys lack holds up nobody else's
			if err := s.tell(ctx, deployment); err != nil && ctx.Err() == nil {
				s.Log.V(1).Info("Clients were not told of sign-ins that ended; trying again", "deployment", deployment, "reason", err.Error())
			}
		}
	}
}

// tell puts what a deployment's clients are to be told into the outbox.
func (s *Server) tell(ctx context.Context, deployment string) error {
	current := s.Snapshots.Current()
	entry, found := current.Deployment(deployment)
	if !found { // it is gone, or not known here yet: its rows are erased, or the next look finds it
		return nil
	}
	request := &account.Request{
		Tenant: account.NewTenant(current, entry), Store: s.Store, Keyring: s.Keyring, Random: rand.Reader, Now: s.Clock().UTC().Truncate(time.Microsecond), Actor: "system", OnEnqueue: s.OnEnqueue,
	}
	return request.Change(ctx, func(u *account.Unit) error {
		ended, err := u.OAuth().TakeLogouts(tellAtOnce)
		if err != nil {
			return err
		}
		for _, l := range ended {
			app, found := consent.FindApp(u.Tenant, l.App)
			if !found {
				continue
			}
			client, inUse, err := consent.FindClient(u, app, l.Client)
			if err != nil {
				return err
			}
			if !inUse || client.BackchannelLogoutURI == "" {
				continue
			}
			if err := s.postLogout(u, app, client, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// postLogout posts a logout token to a client.
func (s *Server) postLogout(u *account.Unit, of *consent.App, client *consent.Client, l people.Logout) error {
	c := &call{Server: s, app: &app{App: of}, now: u.Now, client: client}
	signer, err := signer(c, c.idTokenAlgorithm(), typeLogoutToken)
	if err != nil {
		return err
	}
	token, err := jwt.Signed(signer).Claims(logoutClaims{
		Claims: jwt.Claims{
			Issuer: of.Content.Issuer, Subject: ids.Format(l.User), Audience: jwt.Audience{client.ID}, IssuedAt: jwt.NewNumericDate(u.Now),
			Expiry: jwt.NewNumericDate(u.Now.Add(logoutTokenLifetime)), ID: rand.Text(),
		},
		SessionID: ids.Format(l.Session), Events: map[string]struct{}{logoutEvent: {}},
	}).Serialize()
	if err != nil {
		return err
	}
	return u.Post(people.Message{Channel: people.ChannelLogout, Recipient: client.BackchannelLogoutURI, ExpiresAt: u.Now.Add(logoutTokenLifetime)}, delivery.Mail{Body: token})
}
