package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clients is the page about clients.
const clients = "clients.md"

// run runs a program to its end, and returns its output.
func (w *world) run(dir, path string, args ...string) string {
	w.T.Helper()
	cmd := exec.CommandContext(w.T.Context(), path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CARDEA_BASE_URL="+w.backend, "CARDEA_API_KEY="+w.manager, "CARDEA_DECISION_URL="+w.decision, "CUSTOMER="+w.customer)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.T.Fatalf("%s %s: %v: %s", path, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestGoClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := filepath.Join(folder(t, map[string]string{"main.go": block(t, clients, "go", 0)}), "main.go")
	if out := w.run(root, "go", "run", main); out != "made Initech\n" {
		t.Errorf("said %q", out)
	}
}

// calls is a program that calls the exports of the page's compiled program.
const calls = `
import { firstKeys, mayRead } from "./main.js";
const { CARDEA_BASE_URL, CARDEA_API_KEY, CARDEA_DECISION_URL, CUSTOMER } = process.env;
const keys = await firstKeys(CARDEA_BASE_URL, CARDEA_API_KEY);
const refused = await firstKeys(CARDEA_BASE_URL, "ck_0").catch((error) => error.message.slice(0, 4));
console.log(keys.map((key) => key.name).join(), refused, await mayRead(CARDEA_DECISION_URL, CUSTOMER), await mayRead(CARDEA_DECISION_URL, "ck_0"));
`

// Types are generated from the documents that the server serves. The page's program compiles with them, and a program
// that misspells a member does not.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	program(t, "npx", "install nodejs 20 or newer, and npm")
	text := block(t, clients, "ts", 0)
	wrong := strings.Replace(text, "required_permissions", "required_permission", 1)
	dir := nodeFolder(t, map[string]string{"main.ts": text, "wrong.ts": wrong, "calls.js": calls, "package.json": `{"type": "module"}`})
	w := newWorld(t)
	shell := block(t, clients, "sh", 0)
	w.run(dir, "sh", "-euc", shell)

	lines := strings.Split(strings.TrimSpace(shell), "\n")
	check := lines[len(lines)-1]
	misspelt := exec.CommandContext(t.Context(), "sh", "-euc", strings.Replace(check, "main.ts", "wrong.ts", 1))
	misspelt.Dir = dir
	if out, err := misspelt.CombinedOutput(); err == nil || !strings.Contains(string(out), "required_permission") {
		t.Errorf("a misspelt member is not seen: %v: %s", err, out)
	}
	w.run(dir, "sh", "-euc", strings.Replace(check, "--noEmit", "--rewriteRelativeImportExtensions", 1))
	if out := w.run(dir, "node", "calls.js"); out != "Globex 401: true false\n" {
		t.Errorf("said %q", out)
	}
}
