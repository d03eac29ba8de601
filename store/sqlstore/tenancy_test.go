package sqlstore

import (
	"github.com/cardea-iam/cardea/store/sqlstore/users"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	createTable = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \((.*?)\n\)(?: WITHOUT ROWID)?;`)
	// tableAt matches each place where a statement names a table. In the statements of upkeep.go, %[1]s stands for a
	// table.
	tableAt = regexp.MustCompile(`\b(?:FROM|JOIN|INTO|UPDATE|DELETE FROM)\s+([a-z_]+|%\[1\]s)`)
	named   = regexp.MustCompile(`\bdeployment\b`)
)

// overAll lists the functions whose statements cover the rows of all deployments, with the reason for each.
var overAll = map[string]string{
	"purgesByTime":           "deletes expired rows of all deployments; its keys include the deployment",
	"purgeIdleClients":       "finds idle clients of all deployments; each is deleted in its own deployment",
	"PendingNotices":         "lists organizations of all deployments; the members of each are notified in its own deployment",
	"SealedSecrets":          "lists the sealed secrets of all deployments; each is sealed again in its own deployment",
	"SealedConnections":      "lists the sealed secrets of connections of all deployments; each is sealed again in its own deployment",
	"DueDomains":             "lists domains of all deployments; each is looked up in its own deployment",
	"NextUpstreamConnection": "walks the connections of all deployments; what belongs to each is ended in its own deployment",
	"purgeEndedSignIns":      "finds ended sign-ins of all deployments; each ends in its own deployment",
	"AbandonToolCalls":       "ends calls of all deployments that their servers did not; its keys include the deployment",
	"purgeToolCalls":         "finds the deployments with expired records; they are deleted deployment by deployment",
	"purgeCallBodies":        "deletes expired arguments and results of all deployments; its keys include the deployment",
	"purgeApprovalArguments": "deletes expired arguments of all deployments; its keys include the deployment",
	"purgeEndings":           "finds ended grants of all deployments; their rows are deleted deployment by deployment",
	"UnnumberedEvents":       "returns only the names of deployments, and the time of an event of each",
	"AgedEvents":             "returns only the names of deployments",
	"Waiting":                "counts the waiting events of every deployment, and returns none of their content",
	"ListDirectories":        "lists directories of all deployments; each is cleared in its own deployment",
	"Linked":                 "returns only the names of deployments",
}

// peopleSchema returns the tables of people with their definitions.
func peopleSchema(t *testing.T) map[string]string {
	t.Helper()
	tables := map[string]string{}
	common, err := filepath.Glob("migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("migrations/sqlite/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, migration := range append(common, own...) {
		if strings.HasSuffix(migration, "00001_config.sql") {
			continue
		}
		text, err := os.ReadFile(migration)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range createTable.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(match[1], "api_key_") { // the feed of API keys has only digests, and covers all deployments
				tables[match[1]] = match[2]
			}
		}
	}
	return tables
}

func TestEveryUserTableIsKeyedByDeployment(t *testing.T) {
	t.Parallel()
	tables := peopleSchema(t)
	if len(tables) != len(users.Tables) {
		t.Errorf("the migrations create %d tables of users' rows, users.Tables lists %d", len(tables), len(users.Tables))
	}
	for _, table := range users.Tables {
		if !strings.Contains(tables[table.Name], "PRIMARY KEY (deployment, "+table.Key+")") {
			t.Errorf("%s is not keyed by (deployment, %s)", table.Name, table.Key)
		}
	}
}

// TestEveryStatementNamesTheDeployment reads the statements in the source: each names the deployment at least as often
// as it reaches a table of people.
func TestEveryStatementNamesTheDeployment(t *testing.T) {
	t.Parallel()
	tables := peopleSchema(t)
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			name := ""
			if function, ok := declared.(*ast.FuncDecl); ok {
				name = function.Name.Name
			}
			for _, statement := range statements(declared) {
				reached := 0
				for _, match := range tableAt.FindAllStringSubmatch(statement, -1) {
					if _, ours := tables[match[1]]; ours || strings.HasPrefix(match[1], "%") {
						reached++
						seen[match[1]] = true
					}
				}
				if _, excepted := overAll[name]; !excepted && len(named.FindAllString(statement, -1)) < reached {
					t.Errorf("%s: %s: a statement does not name the deployment of every table it reaches:\n%s", file, name, statement)
				}
			}
		}
	}
	for table := range tables {
		if !seen[table] {
			t.Errorf("no statement uses %s: this test no longer checks it", table)
		}
	}
}

// TestPurgeNamesTheDeploymentOfEachKey checks the statement of purgesByTime, which TestEveryStatementNamesTheDeployment
// excepts.
func TestPurgeNamesTheDeploymentOfEachKey(t *testing.T) {
	t.Parallel()
	parsed, err := parser.ParseFile(token.NewFileSet(), "users/upkeep.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	tables := peopleSchema(t)
	found := 0
	ast.Inspect(parsed, func(node ast.Node) bool {
		function, ok := node.(*ast.FuncDecl)
		if !ok || function.Name.Name != "purgesByTime" {
			return true
		}
		ast.Inspect(function, func(node ast.Node) bool {
			row, ok := node.(*ast.CompositeLit)
			if !ok || row.Type != nil || len(row.Elts) != 4 {
				return true
			}
			table, key := flat(row.Elts[0]), flat(row.Elts[1])
			found++
			if !strings.Contains(tables[table], "PRIMARY KEY ("+key+")") || !strings.HasPrefix(key, "deployment, ") {
				t.Errorf("rows of %s are purged by (%s), which is not their key", table, key)
			}
			return true
		})
		return false
	})
	if found != 26 {
		t.Errorf("found %d kinds of purged rows, want 26", found)
	}
}

// statements returns the SQL texts in a node. A concatenation is one text, made of its string literals only.
func statements(node ast.Node) []string {
	var found []string
	ast.Inspect(node, func(n ast.Node) bool {
		expression, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		switch expression.(type) {
		case *ast.BinaryExpr, *ast.BasicLit:
			if text := flat(expression); tableAt.MatchString(text) {
				found = append(found, text)
			}
			_, concatenation := expression.(*ast.BinaryExpr)
			return !concatenation
		}
		return true
	})
	return slices.Compact(found)
}

func flat(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.BinaryExpr:
		return flat(e.X) + flat(e.Y)
	case *ast.ParenExpr:
		return flat(e.X)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); e.Kind == token.STRING && err == nil {
			return text
		}
	}
	return ""
}
