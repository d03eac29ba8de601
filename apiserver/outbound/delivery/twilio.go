package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// twilioURL is the base URL of Twilio's REST API.
const twilioURL = "https://api.twilio.com"

// maxValidity is the longest ValidityPeriod that Twilio accepts, in seconds.
const maxValidity = 36000

// TwilioOptions describe an account at Twilio, or at another service with Twilio's API.
type TwilioOptions struct {
	// AccountSID identifies the account; at Twilio it is AC and 32 hexadecimal digits. AuthToken is the password of the
	// account.
	AccountSID, AuthToken string
	// From is the number, short code or name that sends the texts. MessagingServiceSID is a pool from which the service
	// chooses the sender. At least one is set.
	From, MessagingServiceSID string
	// BaseURL is the URL to which /2010-04-01/... is appended; empty means Twilio's. Use http only for carriers inside
	// the network.
	BaseURL string
}

type twilio struct {
	transport *Transport
	opts      TwilioOptions
	url       string
}

var accountSID = regexp.MustCompile(`^AC[0-9A-Za-z]{1,62}$`)

func newTwilio(opts TwilioOptions, transport *Transport) (*twilio, error) {
	switch {
	case !accountSID.MatchString(opts.AccountSID):
		return nil, errors.New("the account SID is AC and 32 hexadecimal digits")
	case opts.AuthToken == "":
		return nil, errors.New("the auth token is missing")
	case opts.From == "" && opts.MessagingServiceSID == "":
		return nil, errors.New("a number to send from, or a messaging service, must be set")
	}
	if opts.BaseURL == "" {
		opts.BaseURL = twilioURL
	}
	base, err := endpoint(opts.BaseURL)
	if err == nil && base.RawQuery != "" {
		err = errors.New("must not contain a query")
	}
	if err != nil {
		return nil, fmt.Errorf("base URL: %w", err)
	}
	return &twilio{transport: transport, opts: opts, url: base.JoinPath("2010-04-01", "Accounts", opts.AccountSID, "Messages.json").String()}, nil
}

// Send implements Sender.
func (s *twilio) Send(ctx context.Context, m Message) (Receipt, error) {
	a, err := s.transport.post(ctx, s.url, s.form(m).Encode(), maxAnswer, func(request *http.Request) {
		request.SetBasicAuth(s.opts.AccountSID, s.opts.AuthToken)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Accept", "application/json")
	})
	if err != nil {
		return Receipt{}, err
	}
	if a.status/100 == 2 {
		return twilioReceipt(a)
	}
	return Receipt{}, twilioFault(a, s.transport.clock())
}

func (s *twilio) form(m Message) url.Values {
	form := url.Values{"To": {m.To}, "Body": {m.Body}}
	if s.opts.From != "" {
		form.Set("From", s.opts.From)
	}
	if s.opts.MessagingServiceSID != "" {
		form.Set("MessagingServiceSid", s.opts.MessagingServiceSID)
	}
	if !m.ExpiresAt.IsZero() {
		left := int64(m.ExpiresAt.Sub(s.transport.clock()) / time.Second)
		form.Set("ValidityPeriod", strconv.FormatInt(min(max(left, 1), maxValidity), 10))
	}
	return form
}

// twilioMessage contains the members that are read of Twilio's message resource.
type twilioMessage struct {
	SID         string   `json:"sid"`
	Status      string   `json:"status"`
	NumSegments looseInt `json:"num_segments"`
	ErrorCode   looseInt `json:"error_code"`
}

// twilioReceipt reads a response with a 2xx status. It returns an error if the response does not confirm the message.
func twilioReceipt(a answer) (Receipt, error) {
	var message twilioMessage
	switch {
	case !a.whole:
		return Receipt{}, Transient("the carrier's response broke off or is too long")
	case json.Unmarshal(a.body, &message) != nil:
		return Receipt{}, Transient("the carrier's response is not the JSON of a message")
	}
	switch message.Status {
	case "failed", "undelivered", "canceled":
		if err := twilioRefusal(int(message.ErrorCode)); err != nil {
			return Receipt{}, err
		}
		return Receipt{}, Transient(fmt.Sprintf("the carrier accepted the text and reports the status %s (error code %d)", message.Status, message.ErrorCode))
	}
	if message.SID == "" {
		return Receipt{}, Transient("the carrier's response contains no message SID")
	}
	return Receipt{ProviderID: message.SID, Segments: int(message.NumSegments)}, nil
}

// twilioFault returns the error for a response without a 2xx status.
func twilioFault(a answer, now time.Time) error {
	var fault struct {
		Code looseInt `json:"code"`
	}
	// The response of a proxy may not be JSON. The status then decides.
	_ = json.Unmarshal(a.body, &fault)
	code := int(fault.Code)
	switch {
	case a.status == http.StatusTooManyRequests, code == 20429:
		return a.throttled(now)
	case a.status >= 500, a.status == http.StatusRequestTimeout:
		return Transient("the carrier answered " + strconv.Itoa(a.status))
	case a.status < 400:
		return Misconfigured(a.code(), "the carrier's URL redirects: declare its final URL")
	}
	if err := twilioRefusal(code); err != nil {
		return err
	}
	text := a.code()
	if code != 0 {
		text = strconv.Itoa(code)
	}
	switch a.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return Misconfigured(text, "the carrier does not know the account or its rights")
	}
	return Permanent(text, "the carrier refuses the text")
}

// twilioRefusal returns the error for a Twilio code that is known to be final, nil for other codes. The error does not
// contain Twilio's text, which names the recipient.
func twilioRefusal(code int) error {
	text := strconv.Itoa(code)
	switch code {
	case 20003:
		return Misconfigured(text, "the carrier does not accept the account SID and auth token")
	case 21212, 21603, 21606, 21659, 21660, 21661, 21701, 21703:
		return Misconfigured(text, "the carrier does not let the account send from this number or messaging service")
	case 21408:
		return Permanent(text, "the account may not send to the recipient's region")
	case 21608:
		return Permanent(text, "a trial account sends to verified numbers only")
	case 21211, 21265:
		return Permanent(text, "the carrier reports that the recipient is not a number that receives texts")
	case 21610:
		return Permanent(text, "the recipient has opted out")
	case 21612, 30005, 30006:
		return Permanent(text, "the carrier cannot reach the recipient")
	case 21614, 21635:
		return Permanent(text, "the recipient's number is not a mobile number")
	case 30004, 30007:
		return Permanent(text, "the text is blocked on its way")
	}
	return nil
}

// looseInt is an integer that some services send as a JSON string. It is 0 if it is null, empty or absent.
type looseInt int

// UnmarshalJSON implements json.Unmarshaler.
func (n *looseInt) UnmarshalJSON(raw []byte) error {
	text := strings.TrimSpace(string(bytes.Trim(raw, `"`)))
	if text == "" || text == "null" {
		*n = 0
		return nil
	}
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return errors.New("not a whole number")
	}
	*n = looseInt(value)
	return nil
}
