package oauth

import (
	"net/http"
	"net/url"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

// deviceAuthorization is the response to a device authorization request (RFC 8628 3.2).
type deviceAuthorization struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"`
	Interval                int64  `json:"interval"`
}

// authorizeDevice serves the device authorization endpoint.
func authorizeDevice(c *call) error {
	form, err := c.form()
	if err != nil {
		return err
	}
	if err := c.authenticate(form); err != nil {
		return err
	}
	if !c.client.May(string(v1alpha1.GrantTypeDeviceCode)) {
		return unauthorizedClient("the client may not use device codes: add DeviceCode to its grantTypes")
	}
	var asked consent.Parameters
	for _, check := range []func(*consent.Client, url.Values, *consent.Parameters) error{c.askedScopes, c.askedResources, c.askedAssurance} {
		if err := asRefused(check(c.client, form, &asked)); err != nil {
			return err
		}
	}
	var device, user string
	err = c.change(func(u *account.Unit) (err error) {
		device, user, err = consent.AwaitUser(u, c.App, c.client, asked)
		return err
	})
	if err != nil {
		return err
	}
	page := pages(c) + "/device"
	writeJSON(c.w, http.StatusOK, deviceAuthorization{
		DeviceCode: device, UserCode: user, VerificationURI: page, VerificationURIComplete: page + "?" + url.Values{"user_code": {user}}.Encode(),
		ExpiresIn: int64(consent.DeviceLifetime / time.Second), Interval: int64(consent.DeviceInterval / time.Second),
	})
	return nil
}

// deviceGrant issues a device its tokens after a user allowed it (RFC 8628 3.4).
type deviceGrant struct{}

func (deviceGrant) parse(c *call, form url.Values) (redemption, error) {
	if form.Get("device_code") == "" {
		return redemption{}, invalidRequest("device_code is missing")
	}
	hash, formed := session.Hash(form.Get("device_code"))
	if !formed {
		return redemption{}, errGrant
	}
	return redemption{redeem: func(u *account.Unit) (*issued, error) {
		device, tooSoon, known, err := consent.Poll(u, hash, c.client, c.App)
		switch {
		case err != nil:
			return nil, err
		case !known:
			return nil, errGrant
		}
		if wait := c.pollAgain(device, tooSoon); wait != nil {
			return nil, account.Refuse(wait) // a refusal that commits, because the time of the poll must be recorded
		}
		family, found, err := u.OAuth().LockTokenFamily(device.Family)
		switch {
		case err != nil:
			return nil, err
		case !found:
			return nil, errGrant
		}
		asked, err := c.restrict(form, family)
		if err != nil {
			return nil, err
		}
		if err := u.OAuth().DeleteDevice(hash); err != nil {
			return nil, err
		}
		return c.issueNext(u, family, nil, asked)
	}}, nil
}

// pollAgain returns the refusal for a device that gets no tokens (RFC 8628 3.5), nil if a user granted them.
func (c *call) pollAgain(device people.Device, tooSoon bool) error {
	switch {
	case !c.now.Before(device.ExpiresAt):
		return notYet("expired_token", "no user decided in time: begin again")
	case device.State == people.DeviceDenied:
		return notYet("access_denied", "the user refused")
	case tooSoon:
		return notYet("slow_down", "poll five seconds less often from now on")
	case device.State == people.DevicePending:
		return notYet(codePending, "the user has not decided yet")
	}
	return nil
}

// codePending is the error code for a device that must wait (RFC 8628 3.5). It is not a refusal.
const codePending = "authorization_pending"

func notYet(code, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: code, Description: description}
}
