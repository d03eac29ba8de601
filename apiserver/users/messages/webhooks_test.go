package messages

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/text"
)

func TestMailsAboutEndpoints(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.May, 2, 12, 0, 5, 0, time.UTC)
	mail := EndpointDisabledMail("Acme", "crm", "419524352409601001", since, 503, false)
	for _, part := range []string{"“crm” of Acme", "since 2 May 2026, 12:00 UTC", "Endpoint: 419524352409601001\n", "HTTP status 503"} {
		if !strings.Contains(mail.Body, part) {
			t.Errorf("%q is not in %s", part, mail.Body)
		}
	}
	if mail := EndpointDisabledMail("Acme", "crm", "1", since, 0, true); !strings.Contains(mail.Body, "gone for good") || !strings.Contains(mail.Body, "Last request: no response\n") {
		t.Error(mail.Body)
	}
	failing := EndpointFailingMail("Acme", "crm", "1", since, since.Add(48*time.Hour), 503)
	for _, part := range []string{"“crm” of Acme is failing", "since 2 May 2026, 12:00 UTC", "disabled at 4 May 2026, 12:00 UTC", "Endpoint: 1\n", "HTTP status 503"} {
		if !strings.Contains(failing.Subject+failing.Body, part) {
			t.Errorf("%q is not in %s", part, failing.Body)
		}
	}
	const name = "שירות https://evil.example 123456\r\nBcc: x"
	mail = EndpointDisabledMail(name, name, "1", since, 503, false)
	if all := mail.Subject + mail.Body; strings.Contains(all, "://") || strings.Contains(all, "evil.example") || strings.Contains(all, "123456") || strings.Contains(mail.Subject, "\n") ||
		text.Reorders(mail.Subject) {
		t.Error(all)
	}
}
