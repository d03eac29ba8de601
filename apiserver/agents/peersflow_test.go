package agents_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// runPeer runs a program of test/agentpeers, opens the pages that it asks for, and returns its report.
func (w *flowWorld) runPeer(node, name string, visit func(address string) (back string), env ...string) (report map[string]any) {
	w.T.Helper()
	cmd := exec.CommandContext(w.T.Context(), node, filepath.Join(peers, name))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "MCP_URL=" + w.at("support"), "REDIRECT_URI=" + redirectURI}, env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	w.Must(err)
	out, err := cmd.StdoutPipe()
	w.Must(err)
	w.Must(cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if address, asked := strings.CutPrefix(lines.Text(), "visit "); asked {
			_, err := fmt.Fprintln(in, visit(address))
			w.Must(err)
		}
		if raw, ended := strings.CutPrefix(lines.Text(), "report "); ended {
			w.Must(json.Unmarshal([]byte(raw), &report))
		}
	}
	if err := cmd.Wait(); err != nil || report == nil {
		w.T.Fatalf("%s: %v, and no report", name, err)
	}
	return report
}

// expect compares members of a report.
func (w *flowWorld) expect(report, want map[string]any) {
	w.T.Helper()
	for member, value := range want {
		if !reflect.DeepEqual(report[member], value) {
			w.T.Errorf("%s is %v, want %v", member, report[member], value)
		}
	}
}

func TestPublishedClientGetsItsTokensByOAuth(t *testing.T) {
	program := node(t)
	w := newFlowWorld(t, newWorld(t))
	ada := w.browser()
	ada.signUp("ada@example.com")
	report := w.runPeer(program, "oauth.js", func(address string) string { return ada.authorize(address).String() })
	open, first, more := map[string]any{"state": "open"}, "orders:read offline_access", "orders:read offline_access orders:write"
	w.expect(report, map[string]any{
		"registrations": 1., "resource": w.at("support"), "method": "S256", "tools": []any{"find-order", "cancel-order", "pay"}, "found": open, "cancelled": open,
		"visits": []any{first, more}, "scopes": []any{first, more},
	})
	if w.up.sentTo("/cancellations") != 1 {
		t.Errorf("the tool got %d requests", w.up.sentTo("/cancellations"))
	}
}

func TestPublishedClientWaitsForAnApproval(t *testing.T) {
	program := node(t)
	w := newFlowWorld(t, newWorld(t))
	ada := w.browser()
	ada.signUp("ada@example.com")
	token, buttons := w.tokenFor(ada, w.register(), "orders:read"), []string{"approve", "deny"}
	report := w.runPeer(program, "approval.js", func(address string) string {
		ada.decide(address, buttons[0])
		buttons = buttons[1:]
		return address
	}, "MCP_TOKEN="+token)
	asked := map[string]any{"mode": "url", "message": "Approve or deny this call of Pay by Support."}
	w.expect(report, map[string]any{
		"asked": []any{asked, asked, asked}, "approved": map[string]any{"state": "open"}, "denied": "approval_denied", "declined": "approval_denied",
	})
	if w.up.sentTo("/payments") != 1 {
		t.Errorf("the tool got %d requests", w.up.sentTo("/payments"))
	}
}
