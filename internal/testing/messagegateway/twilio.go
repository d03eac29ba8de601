package messagegateway

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// apiVersion begins every path of the REST interface.
const apiVersion = "2010-04-01"

func (c *Gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_inbox", c.getInbox)
	mux.HandleFunc("DELETE /_inbox", c.deleteInbox)
	mux.HandleFunc("PUT /_dns", c.putDNS)
	mux.HandleFunc("POST /_faults", c.postFaults)
	mux.HandleFunc("DELETE /_faults", c.deleteFaults)
	mux.HandleFunc("/"+apiVersion+"/", c.api)
	for pattern, handler := range c.opts.Handlers {
		mux.Handle(pattern, handler)
	}
	return mux
}

// api serves /2010-04-01/. A pending fault takes precedence; without one, the account is checked before anything else.
func (c *Gateway) api(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if r.Method == http.MethodPost {
		_ = r.ParseForm() // a parameter that cannot be parsed counts as missing
		if fault, found := c.faults.next(r.PostForm.Get("To")); found {
			c.happen(fault, w, r, c.answer)
			return
		}
	}
	c.answer(w, r)
}

func (c *Gateway) answer(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	if user != c.opts.AccountSID || subtle.ConstantTimeCompare([]byte(password), []byte(c.opts.AuthToken)) != 1 {
		w.Header().Set("WWW-Authenticate", `Basic realm="Twilio API"`)
		refuse(w, http.StatusUnauthorized, 20003, "Authenticate")
		return
	}
	if r.URL.Path != c.messagesPath() {
		refuse(w, http.StatusNotFound, 20404, "The requested resource "+r.URL.Path+" was not found")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(w, http.StatusMethodNotAllowed, 20004, "Method not allowed")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
		refuse(w, http.StatusUnsupportedMediaType, 20415, "Unsupported Media Type")
		return
	}
	if code, message := c.validate(r.PostForm); code != 0 {
		refuse(w, http.StatusBadRequest, code, message)
		return
	}
	now, sid := time.Now(), newSID()
	created := c.representation(r.PostForm, sid, now)
	c.inbox.add(Message{ID: sid, Channel: ChannelSMS, To: r.PostForm.Get("To"), From: sender(r.PostForm), Body: r.PostForm.Get("Body"), Form: r.PostForm})
	writeJSON(w, http.StatusCreated, created)
}

func (c *Gateway) messagesPath() string {
	return "/" + apiVersion + "/Accounts/" + c.opts.AccountSID + "/Messages.json"
}

// maxBody is the maximum length of a text, in characters.
const maxBody = 1600

var (
	e164      = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	sendable  = regexp.MustCompile(`^(\+[1-9][0-9]{6,14}|[0-9]{3,8}|[A-Za-z0-9 _&+-]{0,10}[A-Za-z][A-Za-z0-9 _&+-]{0,10})$`)
	serviceID = regexp.MustCompile(`^MG[0-9a-fA-F]{32}$`)
)

// Twilio's magic numbers for tests, with the error that a text to or from each number gets.
var (
	magicTo = map[string]refusal{
		"+15005550001": {21211, "Invalid 'To' Phone Number: +1500555XXXX"},
		"+15005550002": {21612, "Message cannot be sent with the current combination of 'To' and/or 'From' parameters"},
		"+15005550003": {21408, "Permission to send an SMS has not been enabled for the region indicated by the 'To' number: +1500555XXXX"},
		"+15005550004": {21610, "Attempt to send to unsubscribed recipient"},
		"+15005550009": {21614, "'To' number is not a valid mobile number"},
	}
	magicFrom = map[string]refusal{
		"+15005550001": {21212, "Invalid From Number (caller ID): +1500555XXXX"},
		"+15005550007": {21606, notOwned},
		"+15005550008": {21611, "This 'From' number has exceeded the maximum allowed number of queued messages"},
	}
)

const (
	// ownedByAll is the magic number that every account may send from.
	ownedByAll = "+15005550006"
	notOwned   = "The 'From' phone number provided is not a valid message-capable Twilio phone number for this destination/account"
)

type refusal struct {
	code    int
	message string
}

// validate returns the code and text of the first fault of a form, or 0.
func (c *Gateway) validate(form url.Values) (int, string) {
	to, from, service, body := form.Get("To"), form.Get("From"), form.Get("MessagingServiceSid"), form.Get("Body")
	switch {
	case to == "":
		return 21604, "A 'To' phone number is required."
	case !e164.MatchString(to):
		return 21211, "The 'To' number " + to + " is not a valid phone number."
	case from == "" && service == "":
		return 21603, "A 'From' phone number is required."
	case service != "" && !serviceID.MatchString(service):
		return 21701, "The Messaging Service does not exist"
	case from != "" && !sendable.MatchString(from):
		return 21212, "Invalid From Number (caller ID): " + from
	case body == "":
		return 21602, "Message body is required."
	case utf8.RuneCountInString(body) > maxBody:
		return 21617, "The concatenated message body exceeds the 1600 character limit."
	}
	if code, message := judgeValidity(form.Get("ValidityPeriod")); code != 0 {
		return code, message
	}
	if f, found := magicFrom[from]; found {
		return f.code, f.message
	}
	if from != "" && from != ownedByAll && len(c.opts.Numbers) > 0 && !slices.Contains(c.opts.Numbers, from) {
		return 21606, notOwned
	}
	f := magicTo[to]
	return f.code, f.message
}

func judgeValidity(text string) (int, string) {
	if text == "" {
		return 0, ""
	}
	seconds, err := strconv.Atoi(text)
	switch {
	case err != nil || seconds < 1:
		return 30012, "TTL is too small"
	case seconds > 36000:
		return 30013, "TTL is too big"
	}
	return 0, ""
}

// representation is a message as the REST interface shows it, with all its 20 properties.
type representation struct {
	AccountSID          string            `json:"account_sid"`
	APIVersion          string            `json:"api_version"`
	Body                string            `json:"body"`
	DateCreated         string            `json:"date_created"`
	DateSent            *string           `json:"date_sent"`
	DateUpdated         string            `json:"date_updated"`
	Direction           string            `json:"direction"`
	ErrorCode           *int              `json:"error_code"`
	ErrorMessage        any               `json:"error_message"`
	From                *string           `json:"from"`
	MessagingServiceSID *string           `json:"messaging_service_sid"`
	NumMedia            string            `json:"num_media"`
	NumSegments         string            `json:"num_segments"`
	Price               *string           `json:"price"`
	PriceUnit           *string           `json:"price_unit"`
	SID                 string            `json:"sid"`
	Status              string            `json:"status"`
	SubresourceURIs     map[string]string `json:"subresource_uris"`
	To                  string            `json:"to"`
	URI                 string            `json:"uri"`
}

func (c *Gateway) representation(form url.Values, sid string, now time.Time) representation {
	uri := "/" + apiVersion + "/Accounts/" + c.opts.AccountSID + "/Messages/" + sid
	date := now.UTC().Format(time.RFC1123Z)
	message := representation{
		AccountSID: c.opts.AccountSID, APIVersion: apiVersion, Body: form.Get("Body"), DateCreated: date, DateUpdated: date,
		Direction: "outbound-api", From: optional(form.Get("From")), MessagingServiceSID: optional(form.Get("MessagingServiceSid")),
		NumMedia: "0", NumSegments: strconv.Itoa(segments(form.Get("Body"))), SID: sid, Status: "queued",
		SubresourceURIs: map[string]string{"media": uri + "/Media.json"}, To: form.Get("To"), URI: uri + ".json",
	}
	if message.From == nil {
		// The service chooses the number later.
		message.Status, message.NumSegments = "accepted", "0"
	}
	return message
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// sender is the sender of a text: a number, or the service that would choose one.
func sender(form url.Values) string {
	if from := form.Get("From"); from != "" {
		return from
	}
	return form.Get("MessagingServiceSid")
}

func newSID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return "SM" + hex.EncodeToString(raw[:])
}

// segments returns the number of segments that a body is split into (3GPP TS 23.038).
func segments(body string) int {
	const basic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	const extension = "\f^{}\\[~]|€"
	septets := 0
	for _, r := range body {
		switch {
		case strings.ContainsRune(basic, r):
			septets++
		case strings.ContainsRune(extension, r):
			septets += 2
		default:
			return parts(len(utf16.Encode([]rune(body))), 70, 67)
		}
	}
	return parts(septets, 160, 153)
}

func parts(length, alone, each int) int {
	if length <= alone {
		return 1
	}
	return (length + each - 1) / each
}

func refuse(w http.ResponseWriter, status, code int, message string) {
	writeJSON(w, status, map[string]any{
		"code": code, "message": message, "more_info": fmt.Sprintf("https://www.twilio.com/docs/errors/%d", code), "status": status,
	})
}
