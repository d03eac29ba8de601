package decision

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// drawn are the members with random or derived values. They must be present, and are not compared.
var drawn = map[string]bool{"request_id": true, "key_id": true, "deployment_id": true, "returns_at": true}

// hold compares a response with a named example of the document, and with its schema.
func (w *world) hold(a answer, op *openapi3.Operation, status int, name string) {
	w.T.Helper()
	response := op.Responses.Status(a.StatusCode)
	if response == nil {
		response = op.Responses.Default()
	}
	media := response.Value.Content.Get("application/json")
	if a.StatusCode != status || media.Examples[name] == nil {
		w.T.Errorf("%s: %d %v", name, a.StatusCode, a.body)
		return
	}
	if err := media.Schema.Value.VisitJSON(a.body, openapi3.VisitAsResponse()); err != nil {
		w.T.Errorf("%s: %v", name, err)
	}
	if got, want := compared(a.body), compared(media.Examples[name].Value.Value); got != want {
		w.T.Errorf("the example %s of %d is not the answer:\n%s\nbut:\n%s", name, status, want, got)
	}
}

// compared returns the part of a body that is compared.
func compared(body any) string {
	var without func(any) any
	without = func(value any) any {
		switch value := value.(type) {
		case map[string]any:
			kept := map[string]any{}
			for name, member := range value {
				if kept[name] = without(member); drawn[name] && member != nil {
					kept[name] = "drawn"
				}
			}
			return kept
		case []any:
			kept := make([]any, len(value))
			for i := range value {
				kept[i] = without(value[i])
			}
			return kept
		}
		return value
	}
	raw, err := json.MarshalIndent(without(body), "", " ")
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// The example requests of the OpenAPI document get the example responses.
func TestDocumentExamplesMatchResponses(t *testing.T) {
	t.Parallel()
	contract, err := openapi.LoadDecision()
	if err != nil {
		t.Fatal(err)
	}
	check, explain := contract.Spec().Paths.Find("/v1/authz/check").Post, contract.Spec().Paths.Find("/v1/authz/explain").Get
	w := newWorld(t)
	w.limit(scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 5})
	key := w.declare("globex", func(k *document.APIKey) { k.Name = "Globex" })
	question := check.RequestBody.Value.Content.Get("application/json").Examples["typical"].Value.Value.(map[string]any)
	ask := func(value string) answer {
		principal := question["principal"].(map[string]any)
		asked := map[string]any{}
		for name, member := range question {
			asked[name] = member
		}
		asked["principal"] = map[string]any{"type": principal["type"], "value": value}
		raw, err := json.Marshal(asked)
		w.Must(err)
		return w.ask(http.MethodPost, "/v1/authz/check", string(raw))
	}
	w.Eventually("the key is known", func() bool { _, known := w.api.Snapshots.Current().APIKey(key[3:15]); return known })
	w.hold(ask(key), check, 200, "allowed")
	for range 4 {
		ask(key)
	}
	w.hold(ask(key), check, 200, "limited")
	w.hold(ask(question["principal"].(map[string]any)["value"].(string)), check, 401, "typical")
	w.hold(w.ask(http.MethodPost, "/v1/authz/check", `{"principal":{"type":"api_key","value":"`+key+`"},"method":"get","resource":"/"}`), check, 400, "typical")

	query := url.Values{}
	for _, parameter := range explain.Parameters {
		if parameter.Value.Example == nil && parameter.Value.Required {
			t.Errorf("the parameter %s has no example", parameter.Value.Name)
		}
		if parameter.Value.Example != nil {
			query.Set(parameter.Value.Name, fmt.Sprint(parameter.Value.Example))
		}
	}
	operator := "Authorization: Bearer " + w.operator()
	query.Set("key_id", key[3:15])
	w.hold(w.ask(http.MethodGet, "/v1/authz/explain?"+query.Encode(), "", operator), explain, 200, "typical")
	query.Set("key_id", "")
	w.hold(w.ask(http.MethodGet, "/v1/authz/explain?"+query.Encode(), "", operator), explain, 400, "typical")

	unloaded := newWorld(t, func(o *Options) {
		o.Snapshots = snapshot.NewFollower(nil, time.Hour, o.Clock, logr.Discard())
	})
	unloaded.hold(unloaded.check(key, "GET", "/"), check, 503, "typical")
}
