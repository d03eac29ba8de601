package isolation

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cardea-iam/cardea/test/testkit"
	"github.com/cardea-iam/cardea/test/traffic"
)

// silentTools calls tools that accept connections and never answer, through many agents.
func (a *attack) silentTools() error {
	const agents = 2
	for i := range agents {
		name := fmt.Sprintf("silent-%d", i)
		if err := a.Apply(a.ctx, agent(a.Namespace, name, "POST", map[string]string{name: fmt.Sprintf("http://127.0.0.1:%d/%d", a.in.site.silentPort(), i)})); err != nil {
			return err
		}
	}
	a.flood(60, func(n int) {
		name := fmt.Sprintf("silent-%d", n%agents)
		if answer, err := a.Ask(a.Server(), name, a.Key, traffic.Address(15, n), "tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, name)); succeeded(answer, err) {
			a.breached(errors.New("a tool that never answers has an answer"))
		}
	})
	return nil
}

// succeeded reports whether a call of a tool has an answer of the tool.
func succeeded(answer testkit.Answer, err error) bool {
	return err == nil && answer.Status == http.StatusOK && answer.JSON["error"] == nil && !strings.Contains(string(answer.Raw), `"isError":true`)
}

// hostileTools calls tools whose answers are slow, endless, large, deep or elsewhere.
func (a *attack) hostileTools() error {
	names := append([]string{"metadata"}, hostile...)
	var last atomic.Value
	a.flood(60, func(n int) {
		name := names[n%len(names)]
		answer, err := a.Ask(a.Server(), "hostile", a.Key, traffic.Address(17, n), "tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, name))
		last.Store(fmt.Sprintf("%d %.300s %v", answer.Status, answer.Raw, err))
		if succeeded(answer, err) {
			a.breached(fmt.Errorf("the tool %s has an answer: %.300s", name, answer.Raw))
		}
	})
	if a.in.site.tools.internal.Load() > 0 {
		a.breached(errors.New("the redirection of a tool was followed"))
	}
	if a.in.site.tools.hostile.Load() == 0 {
		a.breached(fmt.Errorf("no call reached a hostile tool: the attack shows nothing; the last answer is %v", last.Load()))
	}
	return nil
}

// hiddenTexts calls a tool whose answers have instructions in characters that people do not see.
func (a *attack) hiddenTexts() error {
	var answered atomic.Bool
	a.flood(60, func(n int) {
		answer, err := a.Ask(a.Server(), "hostile", a.Key, traffic.Address(18, n), "tools/call", `"name":"hidden","arguments":{}`)
		if succeeded(answer, err) {
			answered.Store(true)
		}
		if text := string(answer.Raw); err == nil && (strings.ContainsAny(text, hiddenCharacters) || strings.Contains(text, `\u202e`) || strings.Contains(text, `\udb40`)) {
			a.breached(fmt.Errorf("an answer has hidden characters: %q", text))
		}
	})
	if !answered.Load() {
		a.breached(errors.New("no answer has a hidden text: the attack shows nothing"))
	}
	return nil
}

// floodAgent lists a hundred tools and calls one of them without a pause.
func (a *attack) floodAgent() error {
	a.flood(400, func(n int) {
		method, params := "tools/list", ""
		if n%2 == 0 {
			method, params = "tools/call", fmt.Sprintf(`"name":"tool-%d","arguments":{}`, n%manyTools)
		}
		_, _ = a.Ask(a.Server(), "flood", a.Key, traffic.Address(19, n), method, params)
	})
	return nil
}

// expensiveCalls sends bodies to an agent that are large, deep or have many members, with right and wrong credentials.
func (a *attack) expensiveCalls() error {
	bodies := []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find-order","arguments":{` + strings.Repeat(`"a":1,`, 40_000) + `"b":1}}}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 255<<10) + `","method":"ping"}`,
		`[` + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 5000) + `{}]`,
	}
	a.flood(60, func(n int) {
		key := a.Key
		if n%2 == 0 {
			key = fmt.Sprintf("ck_%032d", n)
		}
		answer, err := a.Visit(a.Server(), http.MethodPost, "/mcp/orders", traffic.Address(20, n), "application/json", strings.NewReader(bodies[n/2%len(bodies)]), [2]string{"Authorization", "Bearer " + key})
		if key != a.Key && err == nil && answer.Status == http.StatusOK {
			a.breached(errors.New("an agent accepted an unknown key"))
		}
	})
	return nil
}

// holdStreams opens streams of changes and keeps them open, while the agent's tools change.
func (a *attack) holdStreams() error {
	var mu sync.Mutex
	open := map[*testkit.Cardea]int{}
	var held sync.WaitGroup
	var changes, opened atomic.Int64
	a.flood(100, func(n int) {
		if n%100 == 0 {
			_ = a.Apply(a.ctx, fmt.Sprintf(traffic.ToolManifest, "find-order", a.Namespace, "GET", a.in.site.tools.URL+"/changed-"+fmt.Sprint(changes.Add(1))))
			return
		}
		server := a.Server()
		held.Go(func() {
			counted := false
			_, _ = a.Follow(a.ctx, server, "orders", a.Key, traffic.Address(21, n), func(string) bool {
				mu.Lock()
				defer mu.Unlock()
				if !counted {
					counted = true
					open[server]++
					opened.Add(1)
				}
				if open[server] > 16 {
					a.breached(fmt.Errorf("a caller has %d streams", open[server]))
				}
				return true
			})
			mu.Lock()
			defer mu.Unlock()
			if counted {
				open[server]--
			}
		})
	})
	held.Wait()
	if opened.Load() == 0 {
		a.breached(errors.New("no stream was opened: the attack shows nothing"))
	}
	return nil
}

// callElsewhere presents the attacker's keys to the agents' endpoints of the other deployments.
func (a *attack) callElsewhere() error {
	a.flood(50, func(n int) {
		other := *a.Tenant.Tenant
		other.Host = a.in.others[n%len(a.in.others)].Host
		answer, err := other.Visit(a.Server(), http.MethodPost, "/mcp/orders", traffic.Address(16, n), "application/json",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), [2]string{"Authorization", "Bearer " + a.Key})
		if err == nil && answer.Status == http.StatusOK {
			a.breached(fmt.Errorf("a key of another deployment was accepted: %s", answer.Raw))
		}
	})
	return nil
}
