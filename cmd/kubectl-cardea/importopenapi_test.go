package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

const orders = "toolimport/testdata/orders.yaml"

func TestDocumentIsWrittenAsResources(t *testing.T) {
	out, problems, code := run(t, nil, "import-openapi", orders, "--deployment", "acme", "--agent", "support", "-n", "shop", "--prefix", "acme-",
		"--include", "GET /orders*", "--include", "DELETE *", "--header", "Authorization=order-service-token/token", "--approve", "safe")
	if code != 0 || problems != "3 of 3 operations are tools. Nothing was applied.\n" {
		t.Fatalf("%d %s", code, problems)
	}
	for _, part := range []string{
		"# From the OpenAPI document Orders 1.4.0 by kubectl cardea import-openapi.\n---\n# GET /orders\napiVersion: iam.cardea.dev/v1alpha1\nkind: AITool\n",
		"  name: acme-list-orders\n  namespace: shop\n", "endpoint: https://api.acme.example/v1/orders/{number}\n", "---\n# DELETE /orders/{number}\n",
		"        key: token\n        name: order-service-token\n", "requiresUserApproval: true", "kind: AIAgent", "  toolRefs:\n  - name: acme-list-orders\n  - name: acme-find-order\n  - name: acme-delete-order\n",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing in\n%s", part, out)
		}
	}
	if strings.Contains(out, "status") || strings.Contains(out, "creationTimestamp") || strings.Count(out, "requiresUserApproval: true") != 3 {
		t.Errorf("got\n%s", out)
	}
}

// Standard output has resources only, also where parts are left out.
func TestPartsThatAreLeftOutAreOnStandardError(t *testing.T) {
	out, problems, code := run(t, nil, "import-openapi", "toolimport/testdata/awkward.yaml", "--deployment", "acme")
	if code != 0 || !strings.Contains(problems, "#/paths/~1choices/post/requestBody/content/application~1json/schema/properties/either: left out: oneOf cannot be expressed\n") {
		t.Errorf("%d %s", code, problems)
	}
	if strings.Contains(out, "left out") || strings.Contains(out, "namespace") {
		t.Errorf("got %s", out)
	}
	for line := range strings.SplitSeq(out+problems, "\n") {
		if terminal.Clean(line) != line {
			t.Errorf("the document controls the terminal: %q", line)
		}
	}
}

func TestImportIsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, []byte("{openapi: 3.0.0, servers: [{url: /v1}], paths: {/a: {post: {requestBody: {required: true, content: {text/plain: {}}}}}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no deployment":        {[]string{orders}, exitUsage, "deployment"},
		"no file":              {[]string{"none.yaml", "--deployment", "a"}, exitUsage, "none.yaml"},
		"an empty document":    {[]string{"-", "--deployment", "a"}, exitFault, "no object"},
		"another approval":     {[]string{orders, "--deployment", "a", "--approve", "all"}, exitUsage, "--approve must be one of unsafe, safe, none"},
		"a wrong name":         {[]string{orders, "--deployment", "A"}, exitUsage, "--deployment"},
		"a wrong agent":        {[]string{orders, "--deployment", "a", "--agent", "a_b"}, exitUsage, "--agent"},
		"a wrong prefix":       {[]string{orders, "--deployment", "a", "--prefix", "-a"}, exitUsage, "--prefix"},
		"a wrong pattern":      {[]string{orders, "--deployment", "a", "--include", "orders"}, exitUsage, "GET /orders*"},
		"no operation":         {[]string{orders, "--deployment", "a", "--include", "GET /none"}, exitFault, "no operation was found"},
		"a header on the line": {[]string{orders, "--deployment", "a", "--header", "Authorization: Bearer hunter2"}, exitUsage, "NAME=SECRET/KEY"},
		"a header of proxies":  {[]string{orders, "--deployment", "a", "--header", "X-Forwarded-For=a/b"}, exitUsage, "is set by the connection"},
		"a header twice":       {[]string{orders, "--deployment", "a", "--header", "X-A=a/b", "--header", "x-a=a/b"}, exitUsage, "named twice"},
		"two authorizations":   {[]string{orders, "--deployment", "a", "--as-user", "--header", "authorization=a/b"}, exitUsage, "--as-user"},
		"a relative server":    {[]string{empty, "--deployment", "a"}, exitFault, "--base-url"},
		"a wrong server":       {[]string{empty, "--deployment", "a", "--base-url", "https://u:hunter2@c.example"}, exitUsage, "--base-url must be"},
		"nothing is a tool":    {[]string{empty, "--deployment", "a", "--base-url", "https://c.example"}, exitFault, "no operation can be a tool"},
	} {
		out, problems, code := run(t, nil, append([]string{"import-openapi"}, tc.args...)...)
		if code != tc.code || !strings.Contains(problems, tc.want) || strings.Contains(problems, "hunter2") || out != "" {
			t.Errorf("%s: %d %s%s", name, code, out, problems)
		}
	}
}
