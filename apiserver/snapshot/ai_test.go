package snapshot

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// An agent's view is made once, and again after a tool was added or deleted. Older snapshots keep theirs.
func TestAgentsHaveTheToolsOfTheirSnapshot(t *testing.T) {
	start := time.Unix(1700000000, 0)
	tool := func(name string, id int64) store.Document {
		return doc(t, "AITool", name, id, "", start, document.AITool{Name: name, Type: "api", Method: "GET"})
	}
	first, err := build([]store.Document{
		doc(t, "AIAgent", "agent", 1, "", start, document.AIAgent{Name: "Agent", Tools: []string{"a", "b"}}), tool("a", 11),
	}, store.Position{Revision: 1})
	if err != nil {
		t.Fatal(err)
	}
	both, err := first.apply([]store.Change{{Document: tool("b", 12)}}, store.Position{Revision: 2})
	if err != nil {
		t.Fatal(err)
	}
	one, err := both.apply([]store.Change{{Document: store.Document{Owner: store.Owner{Identity: store.Identity{Kind: "AITool", Namespace: "ns", Name: "a"}}}, Deleted: true}}, store.Position{Revision: 3})
	if err != nil {
		t.Fatal(err)
	}
	served := func(s *Snapshot) string {
		e, _ := s.Get(store.Identity{Kind: "AIAgent", Namespace: "ns", Name: "agent"})
		_, tools, _ := strings.Cut(string(s.AppendAgent([]byte("before"), e)), `"tools":`)
		tools, _, _ = strings.Cut(tools, "]")
		return tools + "]"
	}
	listed := func(s *Snapshot) string {
		e, _ := s.Get(store.Identity{Kind: "AIAgent", Namespace: "ns", Name: "agent"})
		var names []string
		for _, tool := range s.Tools(e) {
			names = append(names, tool.Name)
		}
		return strings.Join(names, " ")
	}
	for range 2 {
		if got := served(first); got != `["11"]` {
			t.Errorf("with one tool: %s", got)
		}
		if got := served(both); got != `["11","12"]` {
			t.Errorf("with both: %s", got)
		}
		if got := served(one); got != `["12"]` {
			t.Errorf("with the other: %s", got)
		}
		if got := listed(first) + ", " + listed(both) + ", " + listed(one); got != "a, a b, b" {
			t.Errorf("listed: %s", got)
		}
	}
}

// A prompt is the largest part of a deployment's resources, so it is only stored in the view.
func TestAgentPromptIsStoredOnce(t *testing.T) {
	t.Parallel()
	prompt := strings.Repeat("x", 64<<10)
	s, err := build([]store.Document{doc(t, "AIAgent", "agent", 1, "", time.Unix(0, 0), document.AIAgent{Name: "Agent", SystemPrompt: prompt})}, store.Position{Revision: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, _ := s.Get(store.Identity{Kind: "AIAgent", Namespace: "ns", Name: "agent"})
	if view := s.AppendAgent(nil, e); !strings.Contains(string(view), prompt) {
		t.Error("the view lacks the prompt")
	}
	agent := ContentOf[Agent](e)
	if held := len(agent.SystemPrompt) + len(agent.before) + len(agent.after) + len(e.Body) + len(agent.listed.Load().ids); held > len(prompt)+1024 {
		t.Errorf("%d bytes are held of a prompt of %d", held, len(prompt))
	}
}
