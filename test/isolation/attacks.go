package isolation

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// attack is a running attack, which ends with its context.
type attack struct {
	*tenant
	ctx context.Context
	// begin starts the time of the attack. Each attack calls it after its preparation; flood does so for most.
	begin func()
	sent  atomic.Int64
	mu    sync.Mutex
	// breach is the first response that the attack received although Cardea must refuse it.
	breach error
	// note is what the report says about the attack besides its figures.
	note string
}

// attacks are all attacks, by name. Each returns after its context ended, and returns an error if it could not be
// performed.
var attacks = []struct {
	name string
	make func(*attack) error
}{
	{"key sets of registered clients are large", (*attack).largeKeySets},
	{"registered clients hold many small keys", (*attack).inlineKeySets},
	{"clients are registered and deleted", (*attack).registerAndDelete},
	{"clients are registered and never used", (*attack).fillRegistrations},
	{"authorization requests come from many networks", (*attack).authorizationRequests},
	{"four mail servers never answer", (*attack).silentMailServers},
	{"passwords are guessed from many networks", (*attack).guessPasswords},
	{"second factors are guessed with a right password", (*attack).guessCodes},
	{"passkeys are forged", (*attack).forgePasskeys},
	{"a signed-in user writes without a pause", (*attack).writingUser},
	{"unknown API keys flood the backend API", (*attack).unknownKeys},
	{"one scheme counts many addresses", (*attack).manyCounters},
	{"rate-limit schemes are made and deleted", (*attack).churnSchemes},
	{"many keys are made and used", (*attack).manyKeys},
	{"tokens are verified that grant hundreds of permissions", (*attack).fatTokens},
	{"ServiceAccount tokens are forged", (*attack).forgedServiceAccounts},
	{"names, hosts and issuers of others are declared", (*attack).declareNamesOfOthers},
	{"credentials are presented to others' gateways", (*attack).credentialsElsewhere},
	{"tools of agents never answer", (*attack).silentTools},
	{"tools of agents answer with endless, large and deep bodies, and redirections", (*attack).hostileTools},
	{"answers of tools have hidden instructions", (*attack).hiddenTexts},
	{"an agent's tools are listed and called without a pause", (*attack).floodAgent},
	{"agents get the most expensive bodies, and wrong keys", (*attack).expensiveCalls},
	{"streams of changes are opened and kept", (*attack).holdStreams},
	{"keys are presented to others' agents", (*attack).callElsewhere},
	{"agents have long prompts", (*attack).longPrompts}, // deletes every agent of the attacker
	{"identity providers never answer, and answer with endless and large bodies", (*attack).hostileProviders},
	{"SAML responses and metadata are the most expensive ones known", (*attack).expensiveSAML},
	{"a directory sends its most expensive requests", (*attack).expensiveDirectory},
	{"receivers of webhooks never answer, and answer with endless and large bodies", (*attack).hostileReceivers},
	{"connections are opened and left idle", (*attack).idleConnections},
	{"bodies are the most expensive ones known", (*attack).expensiveBodies},
}

// workers is the maximum number of concurrent requests of an attack.
const workers = 32

// flood repeats an action at a rate until the attack ends, with concurrent workers. Failed requests do not count as
// errors, because an attacker has to expect them.
func (a *attack) flood(perSecond rate.Limit, action func(n int)) {
	a.begin()
	var all sync.WaitGroup
	turns := make(chan int)
	for range workers {
		all.Go(func() {
			for n := range turns {
				action(n)
				a.sent.Add(1)
			}
		})
	}
	pace := rate.NewLimiter(perSecond, 1)
	for n := 0; pace.Wait(a.ctx) == nil; n++ {
		select {
		case turns <- n:
		case <-a.ctx.Done():
		}
	}
	close(turns)
	all.Wait()
}

// breached records a response that Cardea must refuse.
func (a *attack) breached(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.breach == nil {
		a.breach = err
	}
}
