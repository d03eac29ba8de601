package main

import (
	"net/http"
	"strings"
	"testing"
)

const listedKeys = `{"id":"7","key_id":"5A8hQaiOJAmo","deployment_id":"1","app_slug":"shop","name":"Customer\u001b[2J","key_prefix":"shop","key_suffix":"9xQz","permissions":["orders:read"],
	"org_role_permissions":[],"workspace_role_permissions":[],"metadata":{},"owner_user_id":null,"organization_id":null,"workspace_id":null,"rate_limit_scheme_slug":null,"expires_at":null,
	"last_used_at":null,"is_active":true,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","revoked_at":null,"revoked_reason":null,"rotated_from":null,"source":"runtime","resource":null}`

func TestKeysAreListedByTheIDThatDecisionsShow(t *testing.T) {
	server, asked := answering(t, http.StatusOK, `{"keys":[`+listedKeys+`],"has_more":true,"next_cursor":"r7"}`)
	env := map[string]string{envServer: server, envAPIKey: "the-key"}
	out, problems, code := run(t, env, "keys", "shop", "--all", "--limit", "1")
	if code != 0 || !strings.Contains(out, "5A8hQaiOJAmo") || !strings.Contains(out, "--cursor r7 shows the next page.") || strings.Contains(out, "\x1b") {
		t.Errorf("%d %q %s", code, problems, out)
	}
	if asked.URL.Path != "/api-auth/apps/shop/keys" || asked.URL.Query().Get("include_inactive") != "true" {
		t.Errorf("asked %s", asked.URL)
	}

	server, asked = answering(t, http.StatusOK, listedKeys)
	out, problems, code = run(t, map[string]string{envServer: server, envAPIKey: "the-key"}, "keys", "shop", "--key-id", "5A8hQaiOJAmo")
	if code != 0 || !strings.Contains(out, "5A8hQaiOJAmo") || asked.URL.Path != "/api-auth/apps/shop/keys/5A8hQaiOJAmo" {
		t.Errorf("%d %q %s, asked %s", code, problems, out, asked.URL)
	}
}
