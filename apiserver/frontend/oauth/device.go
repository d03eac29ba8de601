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

// grantDevice is the grant type of devices (RFC 8628 3.4).
const grantDevice = consent.GrantDevice

// deviceAuthorization is what a device is told to wait with (RFC 8628 3.2).
type deviceAuthorization struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"`
	Interval                int64  `json:"interval"`
}

// authorizeDevice makes a device wait for a person.
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
	for _, check := range []func(*consent.Client, url.Values, *consent.Parameters) error{c.askedScopes, c.askedResources} {
		if err := asRefused(check(c.client, form, &asked)); err != nil {
			return err
		}
	}
	var device, user string
	err = c.change(func(u *account.Unit) (err error) {
		device, user, err = consent.AwaitPerson(u, c.App, c.client, asked)
		return err
	})
	if err != nil {
		return err
	}
	page := c.pages() + "/device"
	writeJSON(c.w, http.StatusOK, deviceAuthorization{
		DeviceCode: device, UserCode: user, VerificationURI: page, VerificationURIComplete: page + "?" + url.Values{"user_code": {user}}.Encode(),
		ExpiresIn: int64(consent.DeviceLifetime / time.Second), Interval: int64(consent.DeviceInterval / time.Second),
	})
	return nil
}

// deviceCode gives a device its tokens once a person allowed it.
func (c *call) deviceCode(form url.Values) error {
	if !c.client.May(string(v1alpha1.GrantTypeDeviceCode)) {
		return unauthorizedClient("the client may not use device codes: add DeviceCode to its grantTypes")
	}
	if form.Get("device_code") == "" {
		return invalidRequest("device_code is missing")
	}
	hash, formed := session.Hash(form.Get("device_code"))
	if !formed {
		return errGrant
	}
	return c.issue(func(u *account.Unit) (*issued, error) {
		device, tooSoon, known, err := consent.Poll(u, hash, c.client, c.App)
		if err != nil || !known {
			return nil, refusedUnless(err)
		}
		if wait := c.waits(device, tooSoon); wait != nil {
			return nil, &lasting{wait} // when it asked is remembered
		}
		family, found, err := u.LockTokenFamily(device.Family)
		if err != nil || !found {
			return nil, refusedUnless(err)
		}
		var asked narrowed
		if err := c.narrow(&asked, form, family); err != nil {
			return nil, err
		}
		if err := u.DeleteDevice(hash); err != nil {
			return nil, err
		}
		return c.grow(u, family, nil, asked)
	}, nil)
}

// waits is what a device is told that gets no tokens, nil where a person granted them.
func (c *call) waits(device people.Device, tooSoon bool) error {
	switch {
	case !c.now.Before(device.ExpiresAt):
		return pollAgain("expired_token", "nobody decided in time: begin again")
	case device.State == people.DeviceDenied:
		return pollAgain("access_denied", "the person refused")
	case tooSoon:
		return pollAgain("slow_down", "wait five seconds longer from now on")
	case device.State == people.DevicePending:
		return pollAgain(codePending, "the person has not decided yet")
	}
	return nil
}

// codePending is what a device is told that has to wait (RFC 8628 3.5): no refusal.
const codePending = "authorization_pending"

func pollAgain(code, description string) error {
	return &Error{Status: http.StatusBadRequest, Code: code, Description: description}
}
