package pages

import (
	"strings"
	"testing"
	"text/template/parse"

	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
)

// nameFields hold names that users, organizations and clients choose. `t` isolates the values that it fills in.
var nameFields = map[string]bool{"Name": true, "FirstName": true, "LastName": true, "ClientName": true, "Organization": true, "Inviter": true, "RoleName": true, "Initial": true}

// shown reports whether a pipeline shows a name without isolating it.
func shown(pipe *parse.PipeNode) bool {
	if len(pipe.Decl) > 0 || len(pipe.Cmds) != 1 {
		return false
	}
	var path []string
	switch first := pipe.Cmds[0].Args[0].(type) {
	case *parse.FieldNode:
		path = first.Ident
	case *parse.VariableNode:
		path = first.Ident
	}
	return len(path) > 0 && nameFields[path[len(path)-1]]
}

func TestEveryPageParsesInEveryLanguage(t *testing.T) {
	t.Parallel()
	wording, err := loadWording()
	if err != nil {
		t.Fatal(err)
	}
	for language, pages := range wording.templates {
		for name, parsed := range pages {
			if page, err := parsed(); err != nil || page.Lookup("base") == nil {
				t.Errorf("page %s in %s: %v", name, language, err)
			}
		}
	}
}

func TestTemplatesIsolateEveryName(t *testing.T) {
	t.Parallel()
	languages, err := texts.Load()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := templatesIn(languages.All()[0])
	if err != nil {
		t.Fatal(err)
	}
	isolated := 0
	for page, parsed := range pages {
		set, err := parsed()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range set.Templates() {
			if part.Tree == nil {
				continue
			}
			before := "" // the text before the node; a name in an attribute of a form field is not isolated
			var walk func(node parse.Node, named bool)
			list := func(l *parse.ListNode, named bool) {
				if l != nil {
					for _, n := range l.Nodes {
						walk(n, named)
					}
				}
			}
			walk = func(node parse.Node, named bool) {
				switch n := node.(type) {
				case *parse.TextNode:
					before = string(n.Text)
				case *parse.ActionNode:
					attribute := strings.HasSuffix(before, ` name="`) || strings.HasSuffix(before, ` id="`) || strings.HasSuffix(before, ` value="`)
					_, dot := n.Pipe.Cmds[0].Args[0].(*parse.DotNode)
					if !attribute && (shown(n.Pipe) || named && dot && len(n.Pipe.Cmds) == 1) {
						t.Errorf("page %s, template %s: %s shows a name that is not isolated: use isolate or person", page, part.Name(), n)
					}
					if strings.HasPrefix(n.Pipe.String(), "isolate ") || strings.HasPrefix(n.Pipe.String(), "person ") {
						isolated++
					}
				case *parse.ListNode:
					list(n, named)
				case *parse.IfNode:
					list(n.List, named)
					list(n.ElseList, named)
				case *parse.RangeNode:
					list(n.List, false)
					list(n.ElseList, named)
				case *parse.WithNode:
					list(n.List, shown(n.Pipe))
					list(n.ElseList, named)
				}
			}
			walk(part.Tree.Root, false)
		}
	}
	if isolated == 0 {
		t.Error("no template isolates a name")
	}
}
