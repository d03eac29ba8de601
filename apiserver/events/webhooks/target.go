package webhooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// targets keeps the last target of an endpoint. It is safe for concurrent use.
type targets struct{ last atomic.Pointer[openedTarget] }

// openedTarget is a target that requests use again for a short time.
type openedTarget struct {
	*target
	deployment *snapshot.Entry
	until      time.Time
}

// openedFor is how long a target is used again, unless one of its secrets expires before.
const openedFor = time.Second

// of returns an endpoint as it is declared, with its opened secrets. Errors: those of Dispatcher.target.
func (o *targets) of(d *Dispatcher, k key, content *document.WebhookEndpoint) (*target, error) {
	now := d.Clock()
	deployment, _ := d.Snapshots.Current().Deployment(k.deployment)
	if last := o.last.Load(); last != nil && last.content == content && last.deployment == deployment && now.Before(last.until) {
		return last.target, nil
	}
	t, err := d.target(k, content)
	if err != nil {
		return nil, err
	}
	until := now.Add(openedFor)
	for _, secret := range content.Secrets {
		if at := secret.ExpiresAt; at != nil && at.After(now) && at.Before(until) {
			until = *at
		}
	}
	if content.Scheme != document.WebhookEd25519 { // the signer keeps such keys itself
		o.last.Store(&openedTarget{t, deployment, until})
	}
	return t, nil
}

// target opens the secrets of an endpoint. Errors: a secret cannot be opened, or the deployment has no key.
func (d *Dispatcher) target(k key, content *document.WebhookEndpoint) (*target, error) {
	deployment, found := d.Snapshots.Current().Deployment(k.deployment)
	if !found {
		return nil, fmt.Errorf("deployment %s is not declared", k.deployment)
	}
	t := &target{content: content, headers: http.Header{}, deployment: deployment.ID, agent: "Cardea-Webhooks/" + d.Version}
	now, id := d.Clock(), ids.Format(k.endpoint)
	for _, header := range content.Headers {
		value := header.Value
		if header.Secret {
			opened, err := d.Keyring.Open(document.SealedEndpointHeader, document.ToolHeaderID(id, header.Name), header.Sealed)
			if err != nil {
				return nil, fmt.Errorf("header %s: %w", header.Name, err)
			}
			value = string(opened)
			t.secrets = append(t.secrets, formsOf(value)...)
		}
		t.headers[http.CanonicalHeaderKey(header.Name)] = []string{value}
	}
	if content.Scheme == document.WebhookEd25519 {
		keys, err := d.Signer.Webhooks(snapshot.ContentOf[document.Deployment](deployment), now)
		t.keys = keys
		return t, err
	}
	for _, secret := range content.Secrets {
		if secret.ExpiresAt != nil && !now.Before(*secret.ExpiresAt) {
			continue
		}
		opened, err := d.Keyring.Open(document.SealedEndpointSecret, id, secret.Sealed)
		if err != nil {
			return nil, fmt.Errorf("signing secret: %w", err)
		}
		parsed, err := webhook.ParseSecret(string(opened))
		if err != nil {
			return nil, fmt.Errorf("signing secret: %w", err)
		}
		t.keys, t.secrets = append(t.keys, parsed), append(t.secrets, formsOf(string(opened))...)
	}
	if len(t.keys) == 0 {
		return nil, fmt.Errorf("endpoint %s has no signing secret", id)
	}
	return t, nil
}

// formLeast is the least length of a part of a secret that records do not repeat: shorter ones are words of texts.
const formLeast = 6

// formsOf returns the forms in which a response may repeat a secret, the longest first: all of it, the part after its
// scheme (Bearer X, whsec_X), and these in URLs and in JSON.
func formsOf(secret string) (forms []string) {
	parts := []string{secret}
	for _, before := range []string{" ", "_", ":"} {
		if at := strings.LastIndexByte(secret, before[0]); at >= 0 && len(secret)-at-1 >= formLeast {
			parts = append(parts, secret[at+1:])
		}
	}
	for _, part := range parts {
		quoted, _ := json.Marshal(part) // texts cannot fail
		forms = append(forms, part, url.QueryEscape(part), url.PathEscape(part), strings.Trim(string(quoted), `"`))
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(forms)
}
