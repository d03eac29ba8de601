package consent

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// DeviceLifetime is how long a device waits for a user.
	DeviceLifetime = 10 * time.Minute
	// DeviceInterval is the initial interval between a device's polls (RFC 8628 3.2).
	DeviceInterval = 5 * time.Second
	// userCodeLetters are the letters of user codes: consonants, which form no words, without letters that look alike.
	// Eight of them have 34 bits of entropy (RFC 8628 6.1): an attempt hits the code of one waiting device with a
	// probability of one in 25,600 million.
	userCodeLetters, userCodeLength = "BCDFGHJKLMNPQRSTVWXZ", 8
	// maxUserCodeTries is how many unknown codes one network may enter within maxUserCodeWindow.
	maxUserCodeTries, maxUserCodeWindow = 20, 10 * time.Minute
	// userCodeScope is the scope of the counter of unknown codes.
	userCodeScope = "oauth-user-code"
)

// Errors of devices and user codes.
var (
	// ErrUserCode: no device waits under the code.
	ErrUserCode = errors.New("no device waits under this code")
	// ErrTooManyUserCodes: too many unknown codes were entered.
	ErrTooManyUserCodes = errors.New("too many unknown codes of devices")
)

// AwaitUser stores a device that waits for a user, and returns its device code and user code. The store refuses a user
// code that is in use; the transaction then runs again.
func AwaitUser(u *account.Unit, app *App, client *Client, asked Parameters) (deviceCode, userCode string, err error) {
	raw, err := json.Marshal(asked)
	if err != nil {
		return "", "", err
	}
	d := people.Device{
		App: app.Entry.ID, Client: client.ID, Parameters: string(raw), Network: u.Client.Network, NetworkBlock: u.Client.WideNetwork, State: people.DevicePending, Interval: DeviceInterval,
		CreatedAt: u.Now, ExpiresAt: u.Now.Add(DeviceLifetime),
	}
	if deviceCode, d.Hash, err = session.Mint(u.Random); err != nil {
		return "", "", err
	}
	if d.UserCode, err = mintUserCode(u.Random); err != nil {
		return "", "", err
	}
	return deviceCode, d.UserCode[:4] + "-" + d.UserCode[4:], u.OAuth().InsertDevice(d, people.WaitingBounds{Network: MaxRequests, NetworkBlock: MaxOfNetwork, App: MaxOfApp})
}

// mintUserCode draws letters with equal probability: it draws a byte again unless the byte is below the largest
// multiple of the number of letters.
func mintUserCode(random io.Reader) (string, error) {
	var code strings.Builder
	for one := make([]byte, 1); code.Len() < userCodeLength; {
		if _, err := io.ReadFull(random, one); err != nil {
			return "", err
		}
		if rounds := 256 / len(userCodeLetters); int(one[0]) < rounds*len(userCodeLetters) {
			code.WriteByte(userCodeLetters[int(one[0])%len(userCodeLetters)])
		}
	}
	return code.String(), nil
}

// FoldUserCode returns an entered user code in the form in which codes are compared: upper-case letters only.
func FoldUserCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, strings.ToUpper(typed))
}

// ClaimUserCode makes the device that waits under a user code an authorization request for the user who typed the code,
// and returns the handle of the request. Errors: ErrUserCode, which commits the failed attempt, if no device waits;
// ErrTooManyUserCodes, as a WaitError, after too many failed attempts.
func ClaimUserCode(u *account.Unit, typed string) (handle string, err error) {
	tries, err := u.Limits().Counted(userCodeScope, u.Client.Network, u.Now)
	if err != nil {
		return "", err
	}
	if tries.Count >= maxUserCodeTries {
		return "", &account.WaitError{Reason: ErrTooManyUserCodes, Wait: tries.Ends.Sub(u.Now)}
	}
	d, found, err := u.OAuth().DeviceByUserCode(FoldUserCode(typed))
	if err != nil {
		return "", err
	}
	if !found || d.State != people.DevicePending || !u.Now.Before(d.ExpiresAt) {
		if _, err := u.Limits().Count(userCodeScope, u.Client.Network, u.Now, u.Now.Add(maxUserCodeWindow)); err != nil {
			return "", err
		}
		return "", account.Refuse(ErrUserCode)
	}
	var asked Parameters
	if err := json.Unmarshal([]byte(d.Parameters), &asked); err != nil {
		return "", err
	}
	asked.Device = d.Hash
	raw, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	return insert(u, people.AuthorizationRequest{
		App: d.App, Client: d.Client, Parameters: string(raw), Network: u.Client.Network, NetworkBlock: u.Client.WideNetwork, CreatedAt: u.Now, ExpiresAt: d.ExpiresAt,
	}, MaxRequests)
}

// decideDevice records the user's decision for the device of a request, and returns the path of the page that shows it.
// ErrRequestUnknown if the device does not wait any more.
func (r *Request) decideDevice(u *account.Unit, state string, family int64) (string, error) {
	d, found, err := u.OAuth().LockDevice(r.Device)
	if err != nil {
		return "", err
	}
	if !found || d.State != people.DevicePending || !u.Now.Before(d.ExpiresAt) {
		return "", ErrRequestUnknown
	}
	d.State, d.Family = state, family
	return "/device?" + state, u.OAuth().UpdateDevice(d)
}

// Poll returns a device that asks whether a user decided. tooSoon reports that it asked before its interval was over;
// the interval is longer from now on.
func Poll(u *account.Unit, hash []byte, client *Client, app *App) (d people.Device, tooSoon, found bool, err error) {
	d, found, err = u.OAuth().LockDevice(hash)
	if err != nil || !found || d.Client != client.ID || d.App != app.Entry.ID {
		return d, false, false, err
	}
	if d.State != people.DevicePending { // after the decision, the time between polls does not matter
		return d, false, true, nil
	}
	if !d.PolledAt.IsZero() && u.Now.Before(d.PolledAt.Add(d.Interval)) {
		tooSoon = true
		d.Interval += DeviceInterval
	}
	d.PolledAt = u.Now
	return d, tooSoon, true, u.OAuth().UpdateDevice(d)
}
