package enduser_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// atOnce sends requests concurrently and returns their responses.
func atOnce(w *world, requests ...func() (*http.Response, error)) []string {
	w.T.Helper()
	answers := make([]string, len(requests))
	var all sync.WaitGroup
	for i, send := range requests {
		all.Go(func() {
			resp, err := send()
			if err != nil {
				w.T.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				w.T.Error(err)
			}
			answers[i] = fmt.Sprintf("%d %s", resp.StatusCode, raw)
		})
	}
	all.Wait()
	return answers
}

// succeeded counts the successful responses; the others must have one of the codes.
func succeeded(w *world, answers []string, codes ...string) (n int) {
	w.T.Helper()
	for _, a := range answers {
		if strings.HasPrefix(a, "200 ") {
			n++
			continue
		}
		known := false
		for _, code := range codes {
			known = known || strings.Contains(a, code)
		}
		if !known {
			w.T.Errorf("unexpected: %s", a)
		}
	}
	return n
}

func TestConcurrentLeavingKeepsOneOwner(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		bob, bobs, _ := w.joins(owner, organization, "bob@example.com")
		owner.ok("PATCH", "/organizations/"+organization+"/members/"+bobs, `{"owner":true}`)
		owners := ""
		for _, m := range bob.list("/organizations/" + organization + "/members") {
			if m["id"] != bobs {
				owners = m["id"].(string)
			}
		}
		leave := func(b *browser, membership string) func() (*http.Response, error) {
			return func() (*http.Response, error) {
				return b.raw("DELETE", "/me/organization-memberships/"+membership, "{}")
			}
		}
		if left := succeeded(w, atOnce(w, leave(owner, owners), leave(bob, bobs)), "OWNER_REMOVAL"); left != 1 {
			t.Errorf("%d of two owners left", left)
		}
		if n := w.count("SELECT COUNT(*) FROM organization_memberships WHERE owner = 1 AND organization_id = " + organization); n != 1 {
			t.Errorf("%d owners are left", n)
		}
	})
}

func TestProvenResetWorksOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.signedUp("ada@example.com")
		b := w.browser()
		attempt := b.forgot("ada@example.com")
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		requests := make([]func() (*http.Response, error), 8)
		for i := range requests {
			requests[i] = func() (*http.Response, error) {
				return b.raw("POST", "/auth/reset-password", resetBody(attempt, fmt.Sprintf("%s %d", newPassword, i), ""))
			}
		}
		answers := atOnce(w, requests...)
		if n := succeeded(w, answers, "INVALID_ATTEMPT"); n != 1 {
			t.Errorf("%d resets of one attempt", n)
		}
		for i, a := range answers {
			worked := w.browser().password("ada@example.com", fmt.Sprintf("%s %d", newPassword, i)).Status == 200
			if worked != strings.HasPrefix(a, "200 ") {
				t.Errorf("answered %.3s, and the password signs in: %t", a, worked)
			}
		}
	})
}

// Two accounts verify one address concurrently: one gets it, and the other is refused.
func TestConcurrentVerificationOfAnAddressSucceedsOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		var requests []func() (*http.Response, error)
		for n, name := range []string{"ada@example.com", "eve@example.com"} {
			b, _ := w.signedUp(name)
			path := "/me/email-addresses/" + b.ok("POST", "/me/email-addresses", `{"email":"shared@example.com"}`)["id"].(string)
			b.ok("POST", path+"/prepare-verification", `{}`)
			code := w.CodeFor("shared@example.com", n+1)
			requests = append(requests, func() (*http.Response, error) { return b.raw("POST", path+"/attempt-verification", codeBody(code)) })
		}
		if n := succeeded(w, atOnce(w, requests...), "EMAIL_EXISTS", "EMAIL_NOT_FOUND"); n != 1 {
			t.Errorf("%d accounts verified one address", n)
		}
		if n := w.count("SELECT COUNT(*) FROM emails WHERE folded = 'shared@example.com'"); n != 1 {
			t.Errorf("%d accounts have the address", n)
		}
	})
}
