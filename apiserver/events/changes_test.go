package events

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/repository"
)

// changing matches the methods of the store that change what the catalogue has events of.
var changing = regexp.MustCompile(`^(Insert(User|Users|Member|Members|WorkspaceMember|WorkspaceMembers|Organization|Organizations|Workspace|Workspaces|Invitation|Emails|Phone|Phones|SignIn|APIKey|OAuthClient|Approval)|` +
	`Update(User|Member|Organization|APIKey|OAuthClient)|PutGrant|EndTokenFamily|EndOfflineFamilies|Delete(APIKey|Grant|OAuthClient|User|Member|WorkspaceMember|Organization|Email|Unproven)|SetWorkspaceMemberRole|SetMemberRoles|RenameWorkspace|PutCredential|DeleteCredential|` +
	`VerifyEmail|MakePrimaryEmail|DemoteEmails|VerifyPhone|MakePrimary|DemotePhones|DeletePhone|(Accept|Revoke)Invitation|SuspendMember|RestoreMember|EndSession|EndSessionsOf|LeaveSession|DeleteSignIn|EndSignInsBy|SetActiveOrganization|DecideApproval|FreeApproval)$`)

// logging matches the functions that log events.
var logging = regexp.MustCompile(`^(Log|LogAs|LogEnds|log[A-Z][A-Za-z]*|auditSelf)$`)

// silent are the functions whose changes have no event of their own, with the reason for each.
var silent = map[string]string{
	"RenewPassword":   "the same password with another hash",
	"Rewrite":         "its callers log the events",
	"touch":           "the client was used",
	"revoke":          "the client gave its tokens back: its grant stands",
	"insertKey":       "its callers log the events",
	"activate":        "its callers log the events of switches",
	"switchWorkspace": "the workspace is in the same organization",
	"dropPassword":    "its caller logs the event, with how many sign-ins end",
}

// TestEachChangeLogsAnEvent reads the source: a function that changes users, organizations, memberships or invitations
// logs an event, or is listed with its reason.
func TestEachChangeLogsAnEvent(t *testing.T) {
	t.Parallel()
	changes, used := 0, map[string]bool{}
	eachFile(t, func(path string, file *ast.File) {
		if strings.HasPrefix(path, "apiserver/frontend/pages/") {
			return // pages change nothing themselves: they are clients of the end-user API
		}
		for _, declared := range file.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok {
				continue
			}
			var method string
			logs := false
			ast.Inspect(function, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if called, ok := call.Fun.(*ast.Ident); ok {
					logs = logs || logging.MatchString(called.Name)
				}
				if selected, ok := call.Fun.(*ast.SelectorExpr); ok {
					logs = logs || logging.MatchString(selected.Sel.Name)
					if changing.MatchString(selected.Sel.Name) {
						method = selected.Sel.Name
					}
				}
				return true
			})
			if method == "" {
				continue
			}
			changes++
			if logs {
				continue
			}
			if used[function.Name.Name] = true; silent[function.Name.Name] == "" {
				t.Errorf("%s: %s calls %s and logs no event", path, function.Name.Name, method)
			}
		}
	}, "apiserver")
	for name := range silent {
		if !used[name] {
			t.Errorf("%s does not have to be listed", name)
		}
	}
	if changes < 30 {
		t.Errorf("%d functions change something: this test no longer finds them", changes)
	}
}

// eachFile visits the parsed files of folders of the repository, without those of tests. Paths begin at its root.
func eachFile(t *testing.T, visit func(path string, file *ast.File), folders ...string) {
	t.Helper()
	root := repository.Root()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			relative := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(relative, "test/") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				visit(relative, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
