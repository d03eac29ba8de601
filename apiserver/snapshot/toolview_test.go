package snapshot

import (
	"encoding/json"
	"testing"
	"time"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// Texts and configurations that contain the names of members do not move the parts of a view.
func FuzzViewsOfAToolAreThoseOfTheirTypes(f *testing.F) {
	f.Add("Find", "Finds an order.", "day", "2026-11-26", true, int64(1))
	f.Add(`,"tool_type":`, `","configuration":{}`, `,"configuration":`, `{"type":",\"name\":"}`, false, int64(9223372036854775807))
	f.Add(`"`, `\`, "<&>\u2028", `[",\"type\":"]`, true, int64(7))
	f.Fuzz(func(t *testing.T, name, description, field, value string, active bool, id int64) {
		enum := json.RawMessage(value)
		if !json.Valid(enum) {
			enum = json.RawMessage(`{"a":1,"configuration":{"type":2},"type":3}`)
		}
		created, updated := time.Unix(1700000000, 0).UTC(), time.Unix(1700000000, int64(id%1000)*1000).UTC()
		fields := []schemafield.Field{{Name: field, FieldType: "STRING", EnumValues: []json.RawMessage{enum}, Properties: []schemafield.Field{}}}
		config := backendapi.ToolConfig{
			Endpoint: name, Method: "POST", Headers: map[string]string{field: value}, Parameters: []backendapi.ToolParameter{{Name: field, Type: value}},
		}
		configuration := backendapi.ToolConfiguration{
			Type: "api", Endpoint: description, Method: "POST", RequestBodySchema: fields, UrlParamsSchema: fields,
			Authorization: backendapi.ToolAuthorization{JwtTemplateId: value, CustomHeaders: fields},
		}
		merged := backendapi.AIToolMerged{
			Id: "12", CreatedAt: created, UpdatedAt: updated, Name: name, Description: description, ToolType: "api", RequiresUserApproval: active,
			Configuration: configuration, Type: "api", Config: config, IsActive: active,
		}
		view, err := newToolView(&merged)
		if err != nil {
			t.Fatal(err)
		}
		tool := &Tool{view: view}
		merged.DeploymentId = "34"
		expectJSON(t, tool.AppendMerged(nil, 34), merged)
		expectJSON(t, tool.AppendInAgent(nil, 34), backendapi.AgentTool{
			DeploymentId: "34", Id: "12", CreatedAt: created, UpdatedAt: updated, Name: name, Description: description, ToolType: "api",
			RequiresUserApproval: active, Configuration: configuration,
		})
		expectJSON(t, tool.AppendPlain(nil), backendapi.AITool{
			Id: "12", Name: name, Description: description, Type: "api", Config: config, IsActive: active, CreatedAt: created, UpdatedAt: updated,
		})
	})
}

func expectJSON(t *testing.T, got []byte, of any) {
	t.Helper()
	want, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
