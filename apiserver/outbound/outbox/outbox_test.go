package outbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/store/people"
)

const number = "+12025550101"

func TestMessageIsSentOnceAndErased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	text := w.text(home, number)
	mail := w.message(home, "somebody@acme.example")
	mail.Channel = people.ChannelMail
	w.post(mail)
	for _, want := range []int{2, 0} {
		if n := w.turn(d); n != want {
			t.Fatalf("%d claimed, want %d", n, want)
		}
	}
	for _, m := range []people.Message{text, mail} {
		w.received(m.Recipient, 1)
		r := w.expect(m, people.MessageSent)
		if r.Tries != 1 || r.Lease != "" || m.Channel == people.ChannelSMS && !strings.HasPrefix(r.Provider, "SM") {
			t.Errorf("%+v", r)
		}
	}
	if body := w.carrier.Messages(number)[0].Body; !strings.Contains(body, "000001") {
		t.Errorf("the body %q", body)
	}
	if mail := w.carrier.Messages("somebody@acme.example")[0]; mail.Subject != "Your code" {
		t.Errorf("the subject %q", mail.Subject)
	}
}

func TestRetryDelayIncreasesWithJitter(t *testing.T) {
	t.Parallel()
	for tries, want := range map[int]time.Duration{
		0: 500 * time.Millisecond, 1: 500 * time.Millisecond, 2: time.Second, 3: 2 * time.Second, 4: 4 * time.Second, 5: 8 * time.Second, 6: 8 * time.Second, 1000: 8 * time.Second,
	} {
		seen := map[time.Duration]bool{}
		for range 100 {
			got := pause(tries)
			if got < want/2 || got >= want {
				t.Errorf("pause(%d) = %s, want less than %s and at least half of it", tries, got, want)
			}
			seen[got] = true
		}
		if len(seen) < 10 {
			t.Errorf("pause(%d) has no jitter: %v", tries, seen)
		}
	}
}

func TestTransientFailureIsRetriedUntilShortlyBeforeExpiry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultError, Count: 10_000}))
	m := w.text(home, number)
	var r row
	for tries := 1; ; tries++ {
		if n := w.turn(d); n != 1 {
			t.Fatalf("%d claimed at try %d", n, tries)
		}
		if r = w.row(m); r.State != people.MessagePending {
			break
		}
		wait := r.NextAt.Sub(w.Clock.Now())
		whole := min(firstRetry<<min(tries-1, 5), maxRetry)
		if r.Tries != tries || wait < whole/2 || wait > whole || r.Sealed == "" || !strings.Contains(r.Reason, "500") {
			t.Fatalf("after try %d: %+v, due after %s", tries, r, wait)
		}
		w.Clock.Advance(wait - time.Microsecond)
		if n := w.turn(d); n != 0 {
			t.Fatalf("tried again too early")
		}
		w.Clock.Advance(time.Microsecond)
	}
	w.expect(m, people.MessageExpired)
	// The next try would be within the last 30 s, which are left for reading and typing.
	if left := m.ExpiresAt.Sub(w.Clock.Now()); left <= margin || left > margin+maxRetry || r.Tries < 30 {
		t.Errorf("abandoned %s before expiry, after %d tries", left, r.Tries)
	}
	w.Clock.Advance(life)
	if n := w.turn(d); n != 0 {
		t.Error("tried after its expiry")
	}
	w.received(number, 0)
}

func TestLateMessageIsAbandoned(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		left  time.Duration
		state string
		sent  int
	}{
		"there is time":       {margin + time.Microsecond, people.MessageSent, 1},
		"the margin is left":  {margin, people.MessageExpired, 0},
		"expired now":         {0, people.MessageExpired, 0},
		"expired an hour ago": {-time.Hour, people.MessageExpired, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.text(home, number)
			w.Clock.Advance(life - tc.left)
			w.turn(w.dispatcher(w.Store))
			w.expect(m, tc.state)
			w.received(number, tc.sent)
		})
	}
}

func TestThrottledProviderGetsNoMessagesForTheRequestedTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultThrottle, RetryAfter: "7"}))
	first, second := w.text(home, number), w.text(home, "+12025550102")
	elsewhere := w.text(other, "+12025550103")
	w.turn(d)
	for _, m := range []people.Message{first, second} {
		if r := w.expect(m, people.MessagePending); !r.NextAt.Equal(w.Clock.Now().Add(7 * time.Second)) {
			t.Errorf("message %d is due after %s", m.ID, r.NextAt.Sub(w.Clock.Now()))
		}
	}
	w.expect(elsewhere, people.MessageSent)
	w.received(second.Recipient, 0)
	w.Clock.Advance(7*time.Second - time.Microsecond)
	if n := w.turn(d); n != 0 {
		t.Fatalf("%d claimed before the time", n)
	}
	// New messages wait too.
	third := w.text(home, "+12025550104")
	w.turn(d)
	w.received(third.Recipient, 0)
	w.Clock.Advance(time.Microsecond)
	w.turn(d)
	for _, m := range []people.Message{first, second, third} {
		w.expect(m, people.MessageSent)
		w.received(m.Recipient, 1)
	}
}

func TestMessageThrottledBeyondExpiryIsAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultThrottle, RetryAfter: "60"}))
	m := w.text(home, number)
	w.Clock.Advance(life - margin - time.Minute)
	w.turn(w.dispatcher(w.Store))
	w.expect(m, people.MessageExpired)
}

func TestPermanentRefusalIsFinal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	m := w.text(home, "+15005550001")
	w.turn(d)
	r := w.expect(m, people.MessageFailed)
	if r.Tries != 1 || !strings.Contains(r.Reason, "21211") || strings.Contains(r.Reason, m.Recipient) {
		t.Errorf("%+v", r)
	}
	w.Clock.Advance(lease)
	if n := w.turn(d); n != 0 {
		t.Error("tried again")
	}
}

func TestWrongProviderTokenFailsMessagesUntilFixed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	wrong := w.deployment(home)
	wrong.SMS.Twilio.SealedAuthToken = w.Keyring.Seal(document.SealedTwilioToken, document.SecretID(home, document.SealedTwilioToken), []byte("not the token"))
	w.redeclare(home, wrong)
	m := w.text(home, number)
	w.turn(d)
	if r := w.expect(m, people.MessageFailed); !strings.Contains(r.Reason, "20003") {
		t.Errorf("%+v", r)
	}
	w.redeclare(home, w.deployment(home))
	m = w.text(home, number)
	w.turn(d)
	w.expect(m, people.MessageSent)
}

func TestReplacedCodeIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	replaced, used, last := w.text(home, number), w.text(home, "+12025550102"), w.text(home, number)
	w.Must(w.Store.Change(t.Context(), home, func(tx people.Tx) error {
		_, err := tx.Challenges().ConsumeChallenge(used.Challenge, w.Clock.Now())
		return err
	}))
	w.turn(w.dispatcher(w.Store))
	w.expect(replaced, people.MessageVoid)
	w.expect(used, people.MessageVoid)
	w.expect(last, people.MessageSent)
	w.received(used.Recipient, 0)
	w.received(number, 1)
	if body := w.carrier.Messages(number)[0].Body; !strings.Contains(body, fmt.Sprintf("%06d", last.ID)) {
		t.Errorf("sent was %q", body)
	}
}

func TestMessageOfCrashedDispatcherIsSentAfterTheLease(t *testing.T) {
	t.Parallel()
	for name, died := range map[string]func(w *world, d *Dispatcher, m people.Message){
		"before it sent": func(*world, *Dispatcher, people.Message) {},
		"before it recorded the outcome": func(w *world, d *Dispatcher, m people.Message) {
			if to := d.send(w.T.Context(), m); to.State != people.MessageSent {
				w.T.Fatalf("%+v", to)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			dead, alive := w.dispatcher(w.Store), w.dispatcher(w.Store)
			m := w.text(home, number)
			claimed, err := dead.claim(t.Context())
			w.Must(err)
			if len(claimed) != 1 {
				t.Fatalf("%d claimed", len(claimed))
			}
			died(w, dead, claimed[0])
			before := len(w.carrier.Messages(number))
			w.Clock.Advance(15*time.Second - time.Microsecond)
			if n := w.turn(alive); n != 0 {
				t.Fatal("claimed within the lease")
			}
			w.Clock.Advance(time.Microsecond)
			if n := w.turn(alive); n != 1 {
				t.Fatalf("%d claimed after the lease", n)
			}
			w.expect(m, people.MessageSent)
			w.received(number, before+1)
			// The first dispatcher wakes up late and records nothing.
			dead.handle(t.Context(), people.Message{Deployment: m.Deployment, ID: m.ID, Channel: m.Channel, Lease: claimed[0].Lease, ExpiresAt: m.CreatedAt})
			w.expect(m, people.MessageSent)
		})
	}
}

func TestFailingProviderRestsWhileOthersContinue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	var failing []people.Message
	for n := range failuresBeforeRest {
		to := fmt.Sprintf("+1202555020%d", n)
		w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultHangUp, To: to}))
		failing = append(failing, w.text(home, to))
	}
	w.turn(d)
	for _, m := range failing {
		w.expect(m, people.MessagePending)
	}
	rested, mail, elsewhere := w.text(home, number), w.message(home, "somebody@acme.example"), w.text(other, "+12025550102")
	mail.Channel = people.ChannelMail
	w.post(mail)
	w.turn(d)
	w.expect(elsewhere, people.MessageSent)
	w.expect(mail, people.MessageSent)
	if r := w.expect(rested, people.MessagePending); !r.NextAt.Equal(w.Clock.Now().Add(restFor)) || !strings.Contains(r.Reason, "rest") {
		t.Errorf("%+v", r)
	}
	w.received(number, 0)
	w.Clock.Advance(restFor)
	w.turn(d)
	for _, m := range append(failing, rested) {
		w.expect(m, people.MessageSent)
		w.received(m.Recipient, 1)
	}
}

func TestSuccessResetsTheCountOfFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	for range 3 {
		for n := range failuresBeforeRest - 1 {
			to := fmt.Sprintf("+1202555020%d", n)
			w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultError, To: to}))
			w.text(home, to)
		}
		w.turn(d)
		m := w.text(home, number)
		w.turn(d)
		w.expect(m, people.MessageSent)
		w.Clock.Advance(maxRetry)
		w.turn(d)
	}
}

func TestMessageOfRemovedProviderFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *world)
		reason string
	}{
		"it is deleted": {func(w *world) { w.withdraw(home) }, "deleted"},
		"it declares no sms": {func(w *world) {
			d := w.deployment(home)
			d.SMS = nil
			w.redeclare(home, d)
		}, "no sms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := w.dispatcher(w.Store)
			m, elsewhere := w.text(home, number), w.text(other, "+12025550102")
			tc.change(w)
			w.turn(d)
			w.expect(elsewhere, people.MessageSent)
			// This server may not have the new configuration yet.
			if r := w.expect(m, people.MessagePending); !strings.Contains(r.Reason, tc.reason) {
				t.Errorf("%+v", r)
			}
			w.Clock.Advance(follows)
			w.Eventually("the configuration is newer than the message", func() bool { return w.follower.Staleness() == 0 })
			w.turn(d)
			if r := w.expect(m, people.MessageFailed); !strings.Contains(r.Reason, tc.reason) {
				t.Errorf("%+v", r)
			}
			w.received(number, 0)
		})
	}
}

func TestMessageAheadOfConfigurationWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	m := w.text("acme/new", number)
	w.turn(d)
	w.expect(m, people.MessagePending)
	w.declare("acme/new", w.deployment("acme/new"))
	w.Eventually("the deployment is known", func() bool {
		_, found := w.follower.Current().Deployment("acme/new")
		return found
	})
	w.Clock.Advance(firstRetry)
	w.turn(d)
	w.expect(m, people.MessageSent)
}

func TestUnreadableBodyFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := w.message(other, number)
	foreign.Deployment = home
	broken := w.message(home, "+12025550102")
	broken.Sealed = "nonsense"
	w.post(foreign, broken)
	w.turn(w.dispatcher(w.Store))
	for _, m := range []people.Message{foreign, broken} {
		w.expect(m, people.MessageFailed)
		w.received(m.Recipient, 0)
	}
}

// Every abandoned or failed message has a log line; sent and replaced messages have none.
func TestUnsentMessageIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	var lines []string
	d.Log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	w.text(home, number) // the next text to the same number replaces this one
	sent := w.text(home, number)
	w.turn(d)
	w.expect(sent, people.MessageSent)
	if len(lines) > 0 {
		t.Errorf("a sent or replaced message was logged: %q", lines)
	}
	for name, tc := range map[string]struct {
		post func() people.Message
		end  string
		says []string
	}{
		"refused": {func() people.Message { return w.text(home, "+15005550001") }, people.MessageFailed, []string{"refused for good", "21211", `"channel"="sms"`, "to"}},
		"a text that no provider accepted": {func() people.Message {
			w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultError, To: number}))
			m := w.text(home, number)
			w.Clock.Advance(life - margin - firstRetry/4)
			return m
		}, people.MessageExpired, []string{"abandoned", "500", `"channel"="sms"`, `"tries"=1`}},
		"a mail that waited too long": {func() people.Message {
			m := w.message(other, "somebody@acme.example")
			m.Channel = people.ChannelMail
			w.post(m)
			w.Clock.Advance(life)
			return m
		}, people.MessageExpired, []string{"abandoned", "not sent in time", `"channel"="mail"`}},
	} {
		lines = nil
		m := tc.post()
		w.turn(d)
		w.expect(m, tc.end)
		if len(lines) != 1 {
			t.Errorf("%s: %q", name, lines)
			continue
		}
		for _, part := range append(tc.says, fmt.Sprintf(`"id"="%d"`, m.ID), fmt.Sprintf(`"deployment"=%q`, m.Deployment)) {
			if !strings.Contains(lines[0], part) {
				t.Errorf("%s: %s does not say %s", name, lines[0], part)
			}
		}
		for _, secret := range []string{m.Recipient, "somebody", fmt.Sprintf("%06d", m.ID)} {
			if strings.Contains(lines[0], secret) {
				t.Errorf("%s: %s says %s", name, lines[0], secret)
			}
		}
	}
}

// redeclare replaces the declaration of a deployment and waits until the follower has loaded the change.
func (w *world) redeclare(deployment string, d document.Deployment) {
	w.T.Helper()
	before := w.follower.Current().Position()
	w.declare(deployment, d)
	w.Eventually("the change is known", func() bool { return w.follower.Current().Position() != before })
}
