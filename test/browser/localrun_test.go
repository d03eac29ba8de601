package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

// localInbox reads the inbox of a local run over HTTP.
type localInbox struct {
	t   *testing.T
	url string
}

func (i localInbox) CodeFor(to string, nth int) string { return i.sent(to, nth, frontendtest.CodeIn) }

func (i localInbox) InvitationFor(to string, nth int) string {
	return i.sent(to, nth, frontendtest.InvitationIn)
}

// sent waits for the nth message to a recipient in which find returns a text, and returns that text.
func (i localInbox) sent(to string, nth int, find func(body string) string) string {
	i.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if found := i.found(to, find); len(found) >= nth {
			return found[nth-1]
		}
		pause := time.NewTimer(50 * time.Millisecond) // the inbox has no notification of a new mail
		<-pause.C
	}
	i.t.Fatalf("message %d to %s did not come", nth, to)
	return ""
}

func (i localInbox) found(to string, find func(body string) string) (found []string) {
	i.t.Helper()
	response, err := http.Get(i.url + "/_inbox?to=" + url.QueryEscape(to))
	if err != nil {
		i.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to the end
	var answer struct{ Messages []struct{ Body string } }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		i.t.Fatal(err)
	}
	for _, message := range answer.Messages {
		if what := find(message.Body); what != "" {
			found = append(found, what)
		}
	}
	return found
}

// describes changes the description of a resource through the backend API of the local run.
func describes(t testing.TB, path, description string) {
	t.Helper()
	raw, _ := json.Marshal(map[string]string{"description": description})
	r, err := http.NewRequest(http.MethodPatch, os.Getenv("CARDEA_BASE_URL")+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("CARDEA_API_KEY"))
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only the status is read
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("PATCH %s: %s", path, answer.Status)
	}
}

// signsInAtATerminal grants the local run's public client access, and checks that the client redeems its code.
func (v *person) signsInAtATerminal(email string) {
	v.t.Helper()
	terminal := newParty(v.t, "Terminal", os.Getenv("CARDEA_ISSUER"), os.Getenv("CARDEA_OAUTH_PUBLIC_CLIENT_ID"), "", time.Now)
	v.asks(terminal, "openid email read:reports")
	v.at("Report terminal would like access", "consent")
	v.sees("Read reports")
	described := "As described " + v.mark + "."
	describes(v.t, "/oauth/apps/tools/scopes/read:reports", described)
	v.run(chromedp.Reload())
	v.sees(described) // the next load shows it, because the PATCH response means that it is served
	v.presses("Allow")
	v.isBack(terminal, email, "")
}

// Walks through the pages of a local run by keyboard, with and without scripts. The spec of make run in test/e2e starts
// it. It needs the addresses that a local run exports.
func TestBrowserWalkThroughLocalRun(t *testing.T) {
	base, mails := os.Getenv("CARDEA_FRONTEND_URL"), os.Getenv("CARDEA_INBOX_URL")
	if base == "" || mails == "" {
		t.Skip("CARDEA_FRONTEND_URL and CARDEA_INBOX_URL are not set: test/e2e runs this test against a local run")
	}
	for n, scripts := range []bool{true, false} {
		t.Run(fmt.Sprintf("scripts %t", scripts), func(t *testing.T) {
			l, mail := look{1280, false}, localInbox{t, mails}
			once := fmt.Sprintf("%d%d", time.Now().UnixNano()/1e6%1e9, n)
			email, invited := "ada"+once+"@people.example", "bob"+once+"@people.example"
			v := arrivesAt(t, base, mail, l, scripts)
			v.mark, v.suffix = once, v.suffix+"-localrun"
			v.signsUp(email)
			v.provesANumber("+1202555" + once[len(once)-4:])
			v.invitesSomebody(invited)
			other := arrivesAt(t, base, mail, l, scripts)
			other.suffix += "-localrun"
			other.followsTheInvitation(invited)
			v.changesThePassword()
			third := arrivesAt(t, base, mail, l, scripts)
			third.suffix += "-localrun"
			third.signsIn(email, newPassphrase)
			v.signsOutElsewhere(third)
			v.signsInAtATerminal(email)
			v.switchesBackAndSignsOut()
		})
	}
}
