package messagegateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/smtp"
	"net/url"
	"strings"
	"testing"
	"time"
)

func start(t *testing.T, opts Options) *Gateway {
	t.Helper()
	c, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func do(t *testing.T, method, target, contentType, body string, authenticate bool) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	if authenticate {
		request.SetBasicAuth(DefaultAccountSID, DefaultAuthToken)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{status: response.StatusCode, header: response.Header}
	_ = json.Unmarshal(raw, &a.body)
	return a
}

const formType = "application/x-www-form-urlencoded"

func form(pairs ...string) url.Values {
	values := url.Values{"To": {"+12025550123"}, "From": {ownedByAll}, "Body": {"Hello"}}
	for i := 0; i < len(pairs); i += 2 {
		if values.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			values.Del(pairs[i])
		}
	}
	return values
}

func (c *Gateway) post(t *testing.T, values url.Values) answer {
	t.Helper()
	return do(t, http.MethodPost, c.URL()+c.messagesPath(), formType, values.Encode(), true)
}

func TestWhatTheContractRefuses(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Numbers: []string{"+12025550100"}})
	service := "MG" + strings.Repeat("0a", 16)
	for name, tt := range map[string]struct {
		form url.Values
		code int // 0: accepted
	}{
		"an owned number":              {form("From", "+12025550100"), 0},
		"the magic number":             {form(), 0},
		"a service":                    {form("From", "", "MessagingServiceSid", service), 0},
		"the longest body":             {form("Body", strings.Repeat("ä", 1600)), 0},
		"the longest validity":         {form("ValidityPeriod", "36000"), 0},
		"no To":                        {form("To", ""), 21604},
		"no body":                      {form("Body", ""), 21602},
		"no From":                      {form("From", ""), 21603},
		"nothing":                      {url.Values{}, 21604},
		"a To of words":                {form("To", "nobody"), 21211},
		"a To without plus":            {form("To", "12025550123"), 21211},
		"a From of somebody":           {form("From", "+12025550199"), 21606},
		"a From of nonsense":           {form("From", "+1"), 21212},
		"an unknown service":           {form("MessagingServiceSid", "MGx"), 21701},
		"a body too long":              {form("Body", strings.Repeat("ä", 1601)), 21617},
		"no validity":                  {form("ValidityPeriod", "0"), 30012},
		"too long a validity":          {form("ValidityPeriod", "36001"), 30013},
		"an invalid number":            {form("To", "+15005550001"), 21211},
		"one that cannot be reached":   {form("To", "+15005550002"), 21612},
		"one of a forbidden region":    {form("To", "+15005550003"), 21408},
		"one that opted out":           {form("To", "+15005550004"), 21610},
		"one that is not mobile":       {form("To", "+15005550009"), 21614},
		"From an invalid number":       {form("From", "+15005550001"), 21212},
		"From one that is not owned":   {form("From", "+15005550007"), 21606},
		"From one whose queue is full": {form("From", "+15005550008"), 21611},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(c.Messages(""))
			a := c.post(t, tt.form)
			if tt.code == 0 {
				if a.status != http.StatusCreated || len(c.Messages("")) != before+1 {
					t.Errorf("answered %d %v", a.status, a.body)
				}
				return
			}
			if a.status != http.StatusBadRequest || a.body["code"] != float64(tt.code) || a.body["status"] != float64(400) || a.body["message"] == "" ||
				a.body["more_info"] != fmt.Sprintf("https://www.twilio.com/docs/errors/%d", tt.code) || len(c.Messages("")) != before {
				t.Errorf("answered %d %v", a.status, a.body)
			}
		})
	}
}

func TestWhoAndWhere(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	foreign := strings.Replace(c.messagesPath(), DefaultAccountSID, "AC"+strings.Repeat("1", 32), 1)
	for name, tt := range map[string]struct {
		method, path, kind string
		authenticate       bool
		status, code       int
	}{
		"without credentials": {http.MethodPost, c.messagesPath(), formType, false, 401, 20003},
		"a foreign account":   {http.MethodPost, foreign, formType, true, 404, 20404},
		"another resource":    {http.MethodPost, "/2010-04-01/Accounts", formType, true, 404, 20404},
		"another method":      {http.MethodPut, c.messagesPath(), formType, true, 405, 20004},
		"JSON":                {http.MethodPost, c.messagesPath(), "application/json", true, 415, 20415},
	} {
		a := do(t, tt.method, c.URL()+tt.path, tt.kind, form().Encode(), tt.authenticate)
		if a.status != tt.status || a.body["code"] != float64(tt.code) {
			t.Errorf("%s: %d %v", name, a.status, a.body)
		}
		if tt.status == 405 && a.header.Get("Allow") != http.MethodPost || tt.status == 401 && a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: header %v", name, a.header)
		}
	}
}

func TestTheRepresentation(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	a := c.post(t, form("Body", strings.Repeat("x", 161)))
	names := "account_sid api_version body date_created date_sent date_updated direction error_code error_message from messaging_service_sid " +
		"num_media num_segments price price_unit sid status subresource_uris to uri"
	for _, name := range strings.Fields(names) {
		if _, found := a.body[name]; !found {
			t.Errorf("%s is missing", name)
		}
	}
	sid, _ := a.body["sid"].(string)
	if len(a.body) != 20 || len(sid) != 34 || !strings.HasPrefix(sid, "SM") || a.body["num_segments"] != "2" || a.body["error_code"] != nil ||
		a.body["status"] != "queued" || !strings.HasSuffix(a.body["uri"].(string), sid+".json") {
		t.Errorf("answered %v", a.body)
	}
	if _, err := time.Parse(time.RFC1123Z, a.body["date_created"].(string)); err != nil {
		t.Error(err)
	}
}

func TestSegments(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		"": 1, strings.Repeat("x", 160): 1, strings.Repeat("x", 161): 2, strings.Repeat("x", 307): 3, strings.Repeat("€", 80): 1, strings.Repeat("€", 81): 2,
		strings.Repeat("ж", 70): 1, strings.Repeat("ж", 71): 2, strings.Repeat("👍", 35): 1, strings.Repeat("👍", 36): 2,
	} {
		if got := segments(body); got != want {
			t.Errorf("%d characters of %.4q: %d segments, want %d", len([]rune(body)), body, got, want)
		}
	}
}

func TestInbox(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	c.post(t, form("Body", "first"))
	c.post(t, form("Body", "second"))
	c.post(t, form("To", "+4915112345678"))
	mail := "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nF=C3=BCr=\r\n dich\r\n"
	if err := smtp.SendMail(c.SMTPAddress(), nil, "app@example.com", []string{"You+1@example.com"}, []byte(mail)); err != nil {
		t.Fatal(err)
	}
	read := func(query string) []map[string]any {
		t.Helper()
		response, err := http.Get(c.URL() + "/_inbox" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var inbox struct{ Messages []map[string]any }
		if err := json.NewDecoder(response.Body).Decode(&inbox); err != nil || inbox.Messages == nil {
			t.Fatalf("%v, %v", inbox, err)
		}
		return inbox.Messages
	}
	if got := read(""); len(got) != 4 || len(got[0]) != 7 {
		t.Errorf("the whole inbox: %v", got)
	}
	for _, query := range []string{"?to=%2B12025550123", "?to=+12025550123"} {
		if got := read(query); len(got) != 2 || got[0]["body"] != "first" || got[1]["body"] != "second" || got[0]["channel"] != "sms" || got[0]["from"] != ownedByAll {
			t.Errorf("%s: %v", query, got)
		}
	}
	for _, query := range []string{"?to=you%2B1@example.com", "?to=you+1@example.com"} {
		if got := read(query); len(got) != 1 || got[0]["channel"] != "mail" || got[0]["subject"] != "Grüße" || got[0]["body"] != "Für dich\n" || got[0]["from"] != "app@example.com" {
			t.Errorf("%s: %v", query, got)
		}
	}
	if got := read("?to=nobody"); len(got) != 0 {
		t.Errorf("nobody: %v", got)
	}
	if a := do(t, http.MethodDelete, c.URL()+"/_inbox", "", "", false); a.status != http.StatusNoContent || len(c.Messages("")) != 0 {
		t.Errorf("emptied: %d, %v", a.status, c.Messages(""))
	}
}

func TestTheInboxKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var i inbox
	for n := range kept + 5 {
		i.add(Message{ID: fmt.Sprint(n)})
	}
	if got := i.list(""); len(got) != kept || got[0].ID != "5" || got[kept-1].ID != fmt.Sprint(kept+4) {
		t.Errorf("%d messages from %s to %s", len(got), got[0].ID, got[len(got)-1].ID)
	}
}

func TestFaultsOverHTTP(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	order := func(body string) int {
		return do(t, http.MethodPost, c.URL()+"/_faults", "application/json", body, false).status
	}
	for _, bad := range []string{"", "{", `{"kind":"nonsense"}`, `{"kind":"slow","delay":"long"}`, `{"kind":"error","status":200}`} {
		if got := order(bad); got != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, got)
		}
	}
	order(`{"kind":"throttle","count":2,"retry_after":"7"}`)
	order(`{"kind":"error","status":503}`)
	for _, want := range []int{429, 429, 503, 201} {
		a := c.post(t, form())
		if a.status != want || want == 429 && (a.header.Get("Retry-After") != "7" || a.body["code"] != 20429.0) {
			t.Errorf("answered %d %v, want %d", a.status, a.body, want)
		}
	}
	order(`{"kind":"garbage","to":"+4915112345678"}`)
	if a := c.post(t, form()); a.status != 201 || a.body["sid"] == nil {
		t.Errorf("another's fault: %v", a.body)
	}
	if a := c.post(t, form("To", "+4915112345678")); a.status != 201 || a.body != nil {
		t.Errorf("garbage: %v", a.body)
	}
	order(`{"kind":"failed","count":5}`)
	if a := c.post(t, form()); a.status != 201 || a.body["status"] != "failed" || a.body["error_code"] != 30008.0 {
		t.Errorf("failed: %v", a.body)
	}
	order(`{"kind":"hang_up"}`)
	do(t, http.MethodDelete, c.URL()+"/_faults", "", "", false)
	if a := c.post(t, form()); a.body["status"] != "queued" {
		t.Errorf("after healing: %v", a.body)
	}
	if got := len(c.Messages("")); got != 3 {
		t.Errorf("%d messages were delivered", got)
	}
}

// A client that waits for a response does not delay Close.
func TestCloseEndsWhatIsHeldUp(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	if err := c.Fail(Fault{Kind: FaultSlow, Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := http.Post(c.URL()+c.messagesPath(), formType, strings.NewReader(form().Encode()))
		failed <- err
	}()
	for c.faults.left() > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}

func (f *faults) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.line)
}

func TestTheMailServer(t *testing.T) {
	t.Parallel()
	c := start(t, Options{SMTPUsername: "user", SMTPPassword: "secret"})
	mail := []byte("Subject: s\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>\r\n--b\r\n" +
		"Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n--b--\r\n")
	send := func(password, to string) error {
		var auth smtp.Auth
		if password != "" {
			auth = smtp.PlainAuth("", "user", password, "127.0.0.1")
		}
		return smtp.SendMail(c.SMTPAddress(), auth, "app@example.com", []string{to}, mail)
	}
	for _, tt := range []struct{ password, to, want string }{
		{"secret", "you@example.com", ""}, {"wrong", "you@example.com", "535"}, {"", "you@example.com", "530"},
		{"secret", "reject@example.com", "550"}, {"secret", "Later@example.com", "451"},
	} {
		err := send(tt.password, tt.to)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if got := c.Messages("you@example.com"); len(got) != 1 || got[0].Body != "hello" {
		t.Errorf("inbox: %+v", got)
	}
}

func TestPortsThatAreTaken(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	if _, err := Start(Options{SMTPPort: c.SMTPPort()}); err == nil {
		t.Error("a second mail server on the same port")
	}
	if _, err := Start(Options{ImplicitTLS: true}); err == nil {
		t.Error("implicit TLS without a certificate")
	}
}
