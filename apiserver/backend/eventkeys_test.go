package backend

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/events"
)

func TestChangesOfKeysByBackendsLogEvents(t *testing.T) {
	t.Parallel()
	s := exampleWorld(t)
	send := func(method, path, body string) string {
		t.Helper()
		answer := s.send(method, path, body)
		if answer.Code != 200 {
			t.Fatalf("%s %s: %d %s", method, path, answer.Code, answer.Body)
		}
		var made struct {
			ID  string
			Key struct{ ID string }
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil {
			t.Fatal(err)
		}
		return cmp.Or(made.ID, made.Key.ID)
	}
	const keys = "/api-auth/apps/shop/keys"
	var id, next string
	created := s.happens(t, func() { id = send("POST", keys, `{"name":"Secret name","permissions":[]}`) }, events.APIKeyCreated)[0]
	if created.SubjectID != id || !strings.HasPrefix(created.Actor, "key:") || !strings.HasPrefix(created.Data, `{"app_slug":"shop","last4":"`) || strings.Contains(created.Data, "name") {
		t.Errorf("%+v", created)
	}
	path := keys + "/" + id
	updated := s.happens(t, func() { send("PATCH", path, `{"name":"Other","metadata":{"a":1}}`) }, events.APIKeyUpdated)[0]
	if !strings.Contains(updated.Data, `"changed":["name","metadata"]`) {
		t.Errorf("%+v", updated)
	}
	s.happens(t, func() { send("PATCH", path, `{"name":"Other"}`) })
	rotated := s.happens(t, func() { next = send("POST", path+"/rotate", `{}`) }, events.APIKeyRotated)[0]
	if rotated.SubjectID != id || !strings.Contains(rotated.Data, `"next_id":"`+next+`"`) {
		t.Errorf("%+v", rotated)
	}
	s.happens(t, func() { send("POST", keys+"/"+next+"/revoke", `{"reason":"ada@example.com left"}`) }, events.APIKeyRevoked)
	s.happens(t, func() { send("POST", keys+"/"+next+"/revoke", `{}`) })
	line := `{"type":"api_key","external_id":"k1","app":"shop","name":"Old","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}` + "\n"
	imported := s.happens(t, func() {
		answer := s.send("POST", "/imports/"+strings.Repeat("2", 64)+"/batches?offset=0&complete=true", line)
		if answer.Code != 200 || !strings.Contains(answer.Body.String(), `"imported":1`) {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}, events.APIKeyCreated, events.ImportCompleted)[0]
	if !strings.Contains(imported.Data, `"source":"import"`) {
		t.Errorf("%+v", imported)
	}
}
