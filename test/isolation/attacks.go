package isolation

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// attack is one that runs: it ends with its context.
type attack struct {
	*tenant
	ctx  context.Context
	sent atomic.Int64
	mu   sync.Mutex
	// breach is the first thing that the attack got and must not have got.
	breach error
}

// attacks are all that there are, by what is attacked. Each returns after the context ended; an error says that it
// could not be made, or that something was given which must be refused.
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
	{"a signed-in user writes without a pause", (*attack).writingUser},
	{"unknown API keys flood the backend API", (*attack).unknownKeys},
	{"one scheme counts many addresses", (*attack).manyCounters},
	{"rate-limit schemes are made and deleted", (*attack).churnSchemes},
	{"many keys are made and used", (*attack).manyKeys},
	{"tokens are verified that grant hundreds of permissions", (*attack).fatTokens},
	{"ServiceAccount tokens are forged", (*attack).forgedServiceAccounts},
	{"names, hosts and issuers of others are declared", (*attack).declareNamesOfOthers},
	{"agents have long prompts", (*attack).longPrompts},
	{"credentials are presented to others' gateways", (*attack).credentialsElsewhere},
	{"connections are opened and left idle", (*attack).idleConnections},
	{"bodies are the most expensive ones known", (*attack).expensiveBodies},
}

// workers is how many requests of an attack are under way at once at most.
const workers = 32

// flood repeats an action at a rate until the attack ends, and returns the first error. Requests that fail are no
// errors: they are what an attacker has to expect.
func (a *attack) flood(perSecond rate.Limit, action func(n int)) {
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

// breached notes something that was given and must be refused.
func (a *attack) breached(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.breach == nil {
		a.breach = err
	}
}
