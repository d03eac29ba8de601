package oauth

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// logoutInterval is the interval between polls for ended sign-ins, and logoutsAtOnce the most that one transaction
	// takes per deployment.
	logoutInterval, logoutsAtOnce = time.Second, 100
	// logoutTokenLifetime is how long a logout token is valid, and how long its delivery is tried.
	logoutTokenLifetime = 2 * time.Minute
	logoutEvent         = "http://schemas.openid.net/event/backchannel-logout"
)

// logoutClaims are the claims of a logout token (OpenID Connect Back-Channel Logout 1.0, 2.4).
type logoutClaims struct {
	jwt.Claims
	SessionID string              `json:"sid"`
	Events    map[string]struct{} `json:"events"`
}

// Run notifies clients of ended sign-ins until ctx ends. It puts messages into the outbox, which retries them.
func (s *Server) Run(ctx context.Context) error {
	ticker := time.NewTicker(logoutInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		waiting, err := s.Store.LogoutsWaiting(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.V(1).Info("Reading ended sign-ins failed; trying again", "reason", err.Error())
		}
		for _, deployment := range waiting { // each in its own transaction: one tenant's missing rows or keys do not delay other tenants
			if err := s.enqueueLogouts(ctx, deployment); err != nil && ctx.Err() == nil {
				s.Log.V(1).Info("Enqueueing logout notices failed; trying again", "deployment", deployment, "reason", err.Error())
			}
		}
	}
}

// enqueueLogouts puts a deployment's logout messages into the outbox.
func (s *Server) enqueueLogouts(ctx context.Context, deployment string) error {
	current := s.Snapshots.Current()
	entry, found := current.Deployment(deployment)
	if !found { // its rows are erased if it was deleted; if it is not yet in this snapshot, the next poll finds it
		return nil
	}
	request := &account.Request{
		Tenant: account.NewTenant(current, entry), Store: s.Store, Keyring: s.Keyring, Random: rand.Reader, Now: s.Clock().UTC().Truncate(time.Microsecond), Actor: "system", OnEnqueue: s.OnEnqueue,
	}
	return request.Change(ctx, func(u *account.Unit) error {
		ended, err := u.OAuth().TakeLogouts(logoutsAtOnce)
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

// postLogout enqueues a logout token for a client.
func (s *Server) postLogout(u *account.Unit, of *consent.App, client *consent.Client, l people.Logout) error {
	c := &call{Server: s, app: &app{App: of}, now: u.Now, client: client}
	signer, err := signer(c, c.idTokenAlgorithm(), bearer.TypeLogoutToken)
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
	return u.Post(people.Message{Channel: people.ChannelLogout, Recipient: client.BackchannelLogoutURI, ExpiresAt: u.Now.Add(logoutTokenLifetime)}, delivery.Content{Body: token})
}
