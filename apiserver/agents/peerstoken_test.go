package agents_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// keySet returns the key set of the deployment, as verifiers fetch it.
func (w *peopleWorld) keySet() string {
	w.T.Helper()
	req, err := http.NewRequest("GET", w.Server.URL+"/.well-known/jwks.json", nil)
	w.Must(err)
	resp, err := atHost{}.RoundTrip(req)
	w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	keys, err := io.ReadAll(resp.Body)
	w.Must(err)
	return string(keys)
}

func TestPublishedVerifierAcceptsTheUsersToken(t *testing.T) {
	program := node(t)
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"mine"} })
	session := w.sessions()
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Authorization: document.ToolAuthorization{AuthorizeAsUser: true}})
	w.Eventually("the tool is called", func() bool {
		return strings.Contains(w.post("support", session(agentURL), callBody("mine", `{}`)).raw, `open`)
	})
	sent, _ := w.up.last()
	raw, _ := strings.CutPrefix(sent.header.Get("Authorization"), "Bearer ")
	cmd := exec.CommandContext(t.Context(), program, filepath.Join(peers, "verify.js"))
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "TOKEN=" + raw, "KEYS=" + w.keySet(), "ISSUER=https://localhost", "AUDIENCE=" + w.up.URL,
		"NOW=" + w.Clock.Now().UTC().Format(time.RFC3339),
	}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.Bytes())
	}
	var report struct {
		Claims struct {
			Sub string
			Act struct {
				Sub string
				Act struct{ Sub string }
			}
		}
		OtherAudience, Later, OtherKey string
	}
	w.Must(json.Unmarshal(out, &report))
	agent := "agent:" + ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
	if c := report.Claims; c.Sub != "7" || c.Act.Sub != agent || c.Act.Act.Sub != "session:12" {
		t.Errorf("the claims are %s", out)
	}
	if report.OtherAudience != "ERR_JWT_CLAIM_VALIDATION_FAILED" || report.Later != "ERR_JWT_EXPIRED" || report.OtherKey != "ERR_JWS_SIGNATURE_VERIFICATION_FAILED" {
		t.Errorf("refused with %s", out)
	}
}
