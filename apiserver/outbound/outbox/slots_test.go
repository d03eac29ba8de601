package outbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/store/people"
)

func of(deployment, channel string) people.Message {
	return people.Message{Deployment: deployment, Channel: channel}
}

func TestDeploymentHasItsShareOfSends(t *testing.T) {
	t.Parallel()
	s := newSlots()
	for range maxPerDeployment {
		if !s.enter(of("a", people.ChannelMail)) {
			t.Fatal("refused within the share")
		}
	}
	if s.enter(of("a", people.ChannelSMS)) || s.exhausted.Load() != 1 {
		t.Error("a message beyond the share gets a slot, or the refusal is not counted")
	}
	if claim := s.claim(); len(claim.Except) != 1 || claim.Except[0] != "a" || claim.Limit != claimAtOnce {
		t.Errorf("%+v", claim)
	}
	if !s.enter(of("b", people.ChannelMail)) {
		t.Error("another deployment is refused")
	}
	if !s.leave(of("a", people.ChannelMail)) || !s.enter(of("a", people.ChannelMail)) {
		t.Error("a returned slot is not granted again")
	}
}

func TestSignOutMessagesHaveFewerPlaces(t *testing.T) {
	t.Parallel()
	s := newSlots()
	for i := range maxLogouts / maxLogoutsPerDeployment {
		name := fmt.Sprint(i)
		for range maxLogoutsPerDeployment {
			if !s.enter(of(name, people.ChannelLogout)) {
				t.Fatal("refused within the share")
			}
		}
		if s.enter(of(name, people.ChannelLogout)) || !s.enter(of(name, people.ChannelMail)) {
			t.Error("sign-out messages take the places of mails, or exceed their own")
		}
	}
	if claim := s.claim(); !claim.NoLogouts || len(claim.ExceptLogouts) != maxLogouts/maxLogoutsPerDeployment {
		t.Errorf("%+v", claim)
	}
	if s.enter(of("late", people.ChannelLogout)) {
		t.Error("more sign-out messages are in progress than the bound")
	}
}

func TestDeploymentsTakeTurns(t *testing.T) {
	t.Parallel()
	s := newSlots()
	if !s.took([]people.Message{of("a", people.ChannelMail)}) {
		t.Fatal("after a claim with a message, took reports that no further claim is needed")
	}
	if claim := s.claim(); len(claim.Except) != 1 || claim.Except[0] != "a" {
		t.Errorf("the deployment that was served is not passed over: %+v", claim)
	}
	if !s.took(nil) || len(s.claim().Except) != 0 {
		t.Error("the round does not begin anew")
	}
	if s.took(nil) {
		t.Error("an empty outbox is claimed again at once")
	}
}

// A backlog of one deployment with a fast provider does not delay another's message.
func TestBacklogDelaysNoOtherDeploymentsMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var backlog []people.Message
	for n := range 500 {
		backlog = append(backlog, w.message(home, fmt.Sprintf("+1202557%04d", n)))
	}
	w.post(backlog...)
	w.Clock.Advance(time.Second)
	m := w.text(other, number)
	d := w.dispatcher(w.Store)
	claims := 0
	for {
		claimed, err := d.claim(t.Context())
		w.Must(err)
		if len(claimed) == 0 || claims > 3 {
			t.Fatalf("%d claims, and the other deployment's message is not among them", claims)
		}
		claims++
		d.slots.took(claimed)
		if claimed[0].ID == m.ID {
			return
		}
	}
}

func TestFailingProviderGetsOneMessageAtATime(t *testing.T) {
	t.Parallel()
	var b breakers
	now := time.Unix(0, 0)
	for range failuresBeforeRest {
		if b.enter("p", now) != 0 {
			t.Fatal("refused before it reached the bound of consecutive failures")
		}
		b.leave("p", now, false, time.Time{})
	}
	now = now.Add(restFor)
	if b.enter("p", now) != 0 || b.enter("p", now) == 0 {
		t.Error("after its rest the provider gets no message, or more than one")
	}
	b.leave("p", now, true, time.Time{})
	first := b.enter("p", now)
	if second := b.enter("p", now); first != 0 || second != 0 {
		t.Error("after a success the provider still gets only one message at a time")
	}
}

func TestProvidersAreForgottenAndBounded(t *testing.T) {
	t.Parallel()
	var b breakers
	now := time.Unix(0, 0)
	for n := range 2 * maxBreakers {
		key := fmt.Sprint(n)
		b.enter(key, now)
		b.leave(key, now, false, time.Time{})
	}
	if len(b.state) > maxBreakers {
		t.Errorf("%d providers are remembered", len(b.state))
	}
	now = now.Add(forgetAfter)
	b.enter("new", now)
	if len(b.state) != 1 {
		t.Errorf("%d providers are remembered after an hour", len(b.state))
	}
}

// Four deployments with slow providers leave slots for others.
func TestSlowProvidersLeaveSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	var burst []people.Message
	for n := range 3 * maxPerDeployment {
		to := fmt.Sprintf("+1202556%04d", n)
		w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultSlow, Delay: time.Minute, To: to}))
		burst = append(burst, w.message(home, to))
	}
	w.post(burst...)
	for i := range 3 { // three more deployments, which this world does not declare
		for range maxPerDeployment {
			d.slots.enter(of(fmt.Sprint("hanging-", i), people.ChannelMail))
		}
	}
	w.run(d)
	w.Eventually("the provider is full", func() bool { return len(w.carrier.Messages("")) == maxPerDeployment })
	m := w.text(other, number)
	d.Wake()
	w.Eventually("another deployment's text is sent", func() bool { return w.count(people.MessageSent) == 1 })
	w.expect(m, people.MessageSent)
}
