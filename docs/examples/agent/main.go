// Command agent is a client of the Model Context Protocol without a model: it lists the tools of an agent, and calls
// the one that its arguments name. docs/agents-quickstart.md shows how to run it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearer adds the key to each request.
type bearer struct{ key string }

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	return http.DefaultTransport.RoundTrip(r)
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: agent TOOL ARGUMENTS-IN-JSON")
	}
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: os.Getenv("MCP_URL"), HTTPClient: &http.Client{Transport: bearer{os.Getenv("MCP_KEY")}}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	list, err := session.ListTools(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, tool := range list.Tools {
		fmt.Printf("%s: %s\n", tool.Name, tool.Description)
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: os.Args[1], Arguments: json.RawMessage(os.Args[2])})
	if err != nil {
		log.Fatal(err)
	}
	for _, content := range result.Content {
		if text, isText := content.(*mcp.TextContent); isText {
			fmt.Println(text.Text)
		}
	}
	if result.IsError {
		os.Exit(1)
	}
}
