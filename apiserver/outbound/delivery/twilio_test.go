package delivery

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
)

func twilioAt(t *testing.T, url string, change ...func(*TwilioOptions)) Sender {
	t.Helper()
	opts := TwilioOptions{AccountSID: messagegateway.DefaultAccountSID, AuthToken: messagegateway.DefaultAuthToken, From: "+15005550006", BaseURL: url}
	for _, c := range change {
		c(&opts)
	}
	sender, err := NewSMS(SMSOptions{Twilio: &opts}, newTransport(loopback...))
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func startCarrier(t *testing.T, opts messagegateway.Options) *messagegateway.Gateway {
	t.Helper()
	c, err := messagegateway.Start(opts)
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

func TestTwilioAnswers(t *testing.T) {
	t.Parallel()
	refusal := func(status, code int) http.HandlerFunc {
		return answers(status, fmt.Sprintf(`{"code":%d,"message":"The 'To' number %s %s is bad","more_info":"https://example.com","status":%d}`, code, mobile, secretCode, status))
	}
	created := func(status, segments, code string) http.HandlerFunc {
		return answers(201, fmt.Sprintf(`{"sid":"SM1","status":%q,"num_segments":%s,"error_code":%s}`, status, segments, code))
	}
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"queued":                   {created("queued", `"1"`, "null"), "sent"},
		"accepted, in numbers":     {created("accepted", "1", `""`), "sent"},
		"a code as a string":       {created("queued", `"1"`, `"0"`), "sent"},
		"another success":          {answers(200, `{"sid":"SM1","status":"sent"}`), "sent"},
		"no sid":                   {answers(201, `{"status":"queued"}`), "transient"},
		"failed":                   {created("failed", `"1"`, "30008"), "transient"},
		"failed, code as a string": {created("failed", `"1"`, `"21610"`), "permanent 21610"},
		"undelivered, not mobile":  {created("undelivered", `"1"`, "30006"), "permanent 30006"},
		"undelivered":              {created("undelivered", `"1"`, "null"), "transient"},
		"no JSON":                  {answers(201, "<html>"), "transient"},
		"JSON and more":            {answers(201, `{"sid":"SM1","status":"queued"}{}`), "transient"},
		"another JSON":             {answers(201, `["SM1"]`), "transient"},
		"a sid that is no text":    {answers(201, `{"sid":1}`), "transient"},
		"nothing":                  {answers(204, ""), "transient"},
		"64 KiB":                   {answers(201, `{"sid":"SM1"`+strings.Repeat(" ", maxAnswer-13)+"}"), "sent"},
		"over 64 KiB":              {answers(201, `{"sid":"SM1"`+strings.Repeat(" ", maxAnswer-12)+"}"), "transient"},
		"half a body":              {hangs(201), "transient"},
		"no answer":                {neverAnswers, "transient"},
		"a hang-up":                {hangsUp, "transient"},
		"an invalid number":        {refusal(400, 21211), "permanent 21211"},
		"a forbidden region":       {refusal(400, 21408), "permanent 21408"},
		"an unverified number":     {refusal(400, 21608), "permanent 21608"},
		"opted out":                {refusal(400, 21610), "permanent 21610"},
		"out of reach":             {refusal(400, 21612), "permanent 21612"},
		"not mobile":               {refusal(400, 21614), "permanent 21614"},
		"a number not owned":       {refusal(400, 21606), "misconfigured 21606"},
		"an unknown code":          {refusal(400, 29999), "permanent 29999"},
		"a 400 with a string code": {answers(400, `{"code":"21614"}`), "permanent 21614"},
		"wrong credentials":        {refusal(401, 20003), "misconfigured 20003"},
		"a suspended account":      {refusal(403, 20005), "misconfigured 20005"},
		"no such account":          {refusal(404, 20404), "misconfigured 20404"},
		"a page of a proxy":        {answers(400, "<html>"+secretCode), "permanent http_400"},
		"a page of 404":            {answers(404, "<html>"), "misconfigured http_404"},
		"a refusal that hangs":     {hangs(400), "permanent http_400"},
		"a time-out":               {answers(408, ""), "transient"},
		"throttled":                {answers(429, `{"code":20429}`, "Retry-After", "7"), "throttled 7s"},
		"throttled without header": {answers(429, ""), "throttled 1s"},
		"throttled by the code":    {answers(400, `{"code":20429}`, "Retry-After", "7"), "throttled 7s"},
		"throttled for an hour":    {answers(429, "", "Retry-After", "3600"), "throttled 1m0s"},
		"throttled for ever":       {answers(429, "", "Retry-After", "99999999999999999999"), "throttled 1m0s"},
		"throttled for no time":    {answers(429, "", "Retry-After", "0"), "throttled 1s"},
		"throttled for less":       {answers(429, "", "Retry-After", "-5"), "throttled 1s"},
		"throttled until":          {answers(429, "", "Retry-After", now.Add(20*time.Second).Format(http.TimeFormat)), "throttled 20s"},
		"throttled until long ago": {answers(429, "", "Retry-After", now.Add(-time.Hour).Format(http.TimeFormat)), "throttled 1s"},
		"a fault":                  {refusal(500, 20500), "transient"},
		"a fault with a code":      {refusal(503, 21211), "transient"},
		"a redirect":               {answers(307, "", "Location", "/elsewhere"), "misconfigured http_307"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sender := twilioAt(t, server(t, tt.serve), func(o *TwilioOptions) { o.AuthToken = secretToken })
			receipt, err := sender.Send(context.Background(), Message{ID: 1, To: mobile, Body: secretCode + " is your code"})
			if got := fault(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			if err == nil && receipt.ProviderID != "SM1" {
				t.Errorf("receipt %+v", receipt)
			}
			tellsNothing(t, err)
		})
	}
}

func TestTwilioUnavailable(t *testing.T) {
	t.Parallel()
	closed := server(t, hangsUp)
	for name, url := range map[string]string{"no listener": strings.Replace(closed, "127.0.0.1:", "127.0.0.2:", 1), "no such name": "https://carrier.invalid", "no TLS": strings.Replace(closed, "http:", "https:", 1)} {
		_, err := twilioAt(t, url).Send(context.Background(), Message{To: mobile, Body: secretCode})
		if fault(err) != "transient" {
			t.Errorf("%s: %v", name, err)
		}
		tellsNothing(t, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := twilioAt(t, closed).Send(ctx, Message{To: mobile, Body: secretCode}); fault(err) != "transient" {
		t.Errorf("cancelled: %v", err)
	}
}

func TestTwilioAgainstGatewayStandIn(t *testing.T) {
	t.Parallel()
	c := startCarrier(t, messagegateway.Options{})
	sender := twilioAt(t, c.URL()+"/")
	receipt, err := sender.Send(context.Background(), Message{To: mobile, Body: "ä & = +\n" + secretCode, ExpiresAt: now.Add(5*time.Minute + 900*time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Messages(mobile)
	if len(got) != 1 || got[0].ID != receipt.ProviderID || receipt.Segments != 1 || got[0].Body != "ä & = +\n"+secretCode || got[0].From != "+15005550006" {
		t.Fatalf("receipt %+v, inbox %+v", receipt, got)
	}
	if period := got[0].Form["ValidityPeriod"]; len(period) != 1 || period[0] != "300" {
		t.Errorf("ValidityPeriod %v", period)
	}
	for name, tt := range map[string]struct {
		sender Sender
		to     string
		want   string
	}{
		"a service":         {twilioAt(t, c.URL(), func(o *TwilioOptions) { o.From, o.MessagingServiceSID = "", "MG"+strings.Repeat("0", 32) }), mobile, "sent"},
		"a wrong token":     {twilioAt(t, c.URL(), func(o *TwilioOptions) { o.AuthToken = secretToken }), mobile, "misconfigured 20003"},
		"a foreign account": {twilioAt(t, c.URL(), func(o *TwilioOptions) { o.AccountSID = "AC1" }), mobile, "misconfigured 20003"},
		"not owned":         {twilioAt(t, c.URL(), func(o *TwilioOptions) { o.From = "+15005550007" }), mobile, "misconfigured 21606"},
		"invalid":           {sender, "+15005550001", "permanent 21211"},
		"out of reach":      {sender, "+15005550002", "permanent 21612"},
		"a region":          {sender, "+15005550003", "permanent 21408"},
		"opted out":         {sender, "+15005550004", "permanent 21610"},
		"not mobile":        {sender, "+15005550009", "permanent 21614"},
	} {
		_, err := tt.sender.Send(context.Background(), Message{To: tt.to, Body: secretCode})
		if got := fault(err); got != tt.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, tt.want)
		}
		tellsNothing(t, err, tt.to)
	}
}

func TestTwilioGatewayStandInFaults(t *testing.T) {
	t.Parallel()
	c := startCarrier(t, messagegateway.Options{})
	sender := twilioAt(t, c.URL())
	for _, tt := range []struct {
		fault messagegateway.Fault
		want  string
	}{
		{messagegateway.Fault{Kind: messagegateway.FaultThrottle, RetryAfter: "3"}, "throttled 3s"},
		{messagegateway.Fault{Kind: messagegateway.FaultError}, "transient"},
		{messagegateway.Fault{Kind: messagegateway.FaultSlow, Delay: time.Hour}, "transient"},
		{messagegateway.Fault{Kind: messagegateway.FaultSlow, Delay: time.Millisecond}, "sent"},
		{messagegateway.Fault{Kind: messagegateway.FaultHangUp}, "transient"},
		{messagegateway.Fault{Kind: messagegateway.FaultSlowBody, Delay: time.Hour}, "transient"},
		{messagegateway.Fault{Kind: messagegateway.FaultSlowBody, Delay: time.Millisecond}, "sent"},
		{messagegateway.Fault{Kind: messagegateway.FaultGarbage}, "transient"},
		{messagegateway.Fault{Kind: messagegateway.FaultFailed}, "transient"},
		{messagegateway.Fault{Kind: messagegateway.FaultFailed, Code: 21610}, "permanent 21610"},
	} {
		if err := c.Fail(tt.fault); err != nil {
			t.Fatal(err)
		}
		_, err := sender.Send(context.Background(), Message{To: mobile, Body: secretCode})
		if got := fault(err); got != tt.want {
			t.Errorf("%+v: %s (%v), want %s", tt.fault, got, err, tt.want)
		}
		tellsNothing(t, err)
	}
	if _, err := sender.Send(context.Background(), Message{To: mobile, Body: secretCode}); err != nil {
		t.Errorf("after the faults: %v", err)
	}
}

func TestValidityPeriod(t *testing.T) {
	t.Parallel()
	s := &twilio{transport: newTransport()}
	for left, want := range map[time.Duration]string{-time.Minute: "1", 0: "1", 1999 * time.Millisecond: "1", 10 * time.Minute: "600", 10 * time.Hour: "36000", 48 * time.Hour: "36000"} {
		if got := s.form(Message{ExpiresAt: now.Add(left)}).Get("ValidityPeriod"); got != want {
			t.Errorf("%s: %s, want %s", left, got, want)
		}
	}
	if s.form(Message{}).Has("ValidityPeriod") {
		t.Error("a message that never expires has a ValidityPeriod")
	}
}
