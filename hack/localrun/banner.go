package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cardea-iam/cardea/internal/testing/webhookreceiver"
)

// locations are what the banner shows in addition to the variables of env.
type locations struct{ dir, kubernetes, metrics string }

func (r *localRun) banner(e env, unready []object) string {
	return bannerText(e, locations{dir: r.dir, kubernetes: r.cluster.URL(), metrics: "http://" + address(r.ports.Metrics)}, unready)
}

// bannerText returns the banner: the addresses of the run, and commands to try. The inbox lists the sent texts and
// mails, and webhooks lists the sent events. The banner contains no secret, because the commands take the key from the
// file env.
func bannerText(e env, at locations, unready []object) string {
	var text strings.Builder
	fmt.Fprintf(&text, `
Cardea is running.

  pages           %s/
  console         %s/console
  API reference   %s/docs
  backend API     %s
  end-user API    %s
  decision API    %s
  OAuth issuer    %s
  inbox           %s/_inbox
  webhooks        %s
  metrics         %s
  Kubernetes API  %s
  logs            %s

  export KUBECONFIG=%s

Try it, in another terminal:

  . %s
  kubectl get cardea -A
  curl -s -H "Authorization: Bearer $CARDEA_API_KEY" "$CARDEA_BASE_URL%s"

`, e.frontendURL, e.baseURL, e.baseURL, e.baseURL, e.frontendURL, e.decisionURL, e.issuer, e.inboxURL, e.inboxURL+webhookreceiver.Path, at.metrics, at.kubernetes, filepath.Join(at.dir, "logs"), quote(e.kubeconfig), quote(filepath.Join(at.dir, "env")), schemesPath)
	if len(unready) > 0 {
		text.WriteString("Not Ready, from earlier runs:\n")
		for _, o := range unready {
			text.WriteString(o.describe())
		}
		text.WriteString("\n")
	}
	text.WriteString("Ctrl-C stops everything; data stays in " + at.dir + ".\n")
	return text.String()
}
