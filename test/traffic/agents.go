package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/test/testkit"
)

// Ask sends a JSON-RPC request of an agent's client to a server.
func (t *Tenant) Ask(server *testkit.Cardea, agent, key, from, method, params string) (testkit.Answer, error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
	return t.Visit(server, http.MethodPost, "/mcp/"+agent, from, "application/json", strings.NewReader(body), [2]string{"Authorization", "Bearer " + key})
}

// CallTool calls a tool of the agent "orders", and fails unless the tool's own answer comes.
func (t *Tenant) CallTool(server *testkit.Cardea, tool string, n int) error {
	answer, err := t.Ask(server, "orders", t.Key, "20.0.0.1", "tools/call", fmt.Sprintf(`"name":%q,"arguments":{"number":"n-%d"}`, tool, n))
	if err := testkit.Fault(answer, err); err != nil {
		return err
	}
	if want := fmt.Sprintf(`"structuredContent":{"number":"n-%d"}`, n); !strings.Contains(string(answer.Raw), want) {
		return fmt.Errorf("the answer is not the tool's: %.300s", answer.Raw)
	}
	return nil
}

// ListTools lists the tools of the agent "orders", and fails unless they are its two.
func (t *Tenant) ListTools(server *testkit.Cardea) error {
	answer, err := t.Ask(server, "orders", t.Key, "20.0.0.1", "tools/list", "")
	if err := testkit.Fault(answer, err); err != nil {
		return err
	}
	result, _ := answer.JSON["result"].(map[string]any)
	if tools, _ := result["tools"].([]any); len(tools) != 2 || !strings.Contains(string(answer.Raw), `"find-order"`) {
		return fmt.Errorf("the list is not the agent's: %.300s", answer.Raw)
	}
	return nil
}

// Follow opens a stream of changes of an agent's tools, and calls each at every line of it until ctx ends or each
// returns false. The status is that of the response.
func (t *Tenant) Follow(ctx context.Context, server *testkit.Cardea, agent, key, from string, each func(line string) bool) (status int, err error) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.Frontend+"/mcp/"+agent, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Host = t.Host
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + key, "X-Forwarded-For": from, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }() // the stream is not read to its end
	for lines := bufio.NewScanner(resp.Body); resp.StatusCode == http.StatusOK && lines.Scan(); {
		if !each(lines.Text()) {
			break
		}
	}
	return resp.StatusCode, nil
}

// opens opens a stream of changes, and fails unless it is acknowledged in time.
func (t *Tenant) opens(ctx context.Context, server *testkit.Cardea) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	acknowledged := false
	status, err := t.Follow(ctx, server, "orders", t.Key, "20.0.0.1", func(line string) bool {
		acknowledged = strings.Contains(line, "subscriptions/acknowledged")
		return !acknowledged
	})
	if err == nil && !acknowledged {
		err = fmt.Errorf("the stream is not acknowledged: %d", status)
	}
	return err
}

// startAgents starts the requests of the clients of a tenant's agent, once every server serves it.
func (tr *Traffic) startAgents(ctx context.Context, t *Tenant) error {
	err := testkit.Until(ctx, "the agent of "+t.Host+" is not served", func() error {
		for _, server := range t.Servers {
			if err := errors.Join(t.ListTools(server), t.CallTool(server, "find-order", 0)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	tr.repeat(ctx, "agent list", 5, func(int) error { return t.ListTools(t.Server()) })
	tr.repeat(ctx, "agent read", 10, func(n int) error { return t.CallTool(t.Server(), "find-order", n) })
	tr.repeat(ctx, "agent write", 2, func(n int) error { return t.CallTool(t.Server(), "change-order", n) })
	tr.repeat(ctx, "agent stream", 1, func(int) error { return t.opens(ctx, t.Server()) })
	return nil
}
