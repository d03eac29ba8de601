// Package claimtemplate holds the rules by which a JWTTemplate gives the claims of a token: values, and CEL expressions
// over the user, the agent and the call.
package claimtemplate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/cardea-iam/cardea/internal/boundedcel"
	"github.com/cardea-iam/cardea/internal/document"
)

// MaxValue bounds the JSON of a claim, in bytes.
const MaxValue = 4 << 10

// Template has the compiled claims of a JWTTemplate.
type Template struct{ claims []claim }

type claim struct {
	name    string
	value   json.RawMessage
	program cel.Program
}

// Input is what expressions see. Members that do not apply are nil.
type Input struct {
	User, Organization, Workspace map[string]any
	Permissions                   []string
	Agent, Tool, Call             map[string]any
}

// Compile compiles a template. The error names the claim by its place, as in claims[2].expression.
func Compile(t document.JWTTemplate) (*Template, error) {
	out := &Template{}
	for i, audience := range t.Audiences {
		if parsed, err := url.Parse(audience); err != nil || !parsed.IsAbs() || strings.EqualFold(parsed.Scheme, "cardea") {
			return nil, fmt.Errorf("audiences[%d]: is no absolute URI, or an audience of Cardea itself: write that of the API", i)
		}
	}
	for i, declared := range t.Claims {
		one := claim{name: declared.Name, value: declared.Value}
		switch {
		case (declared.Value != nil) == (declared.Expression != ""):
			return nil, fmt.Errorf("claims[%d]: set exactly one of value and expression", i)
		case len(declared.Value) > MaxValue:
			return nil, fmt.Errorf("claims[%d].value: has %d bytes: at most %d are allowed", i, len(declared.Value), MaxValue)
		case declared.Expression != "":
			program, _, err := boundedcel.Compile(declared.Expression, variables()...)
			if err != nil {
				return nil, fmt.Errorf("claims[%d].expression: %w", i, err)
			}
			one.program = program
		}
		out.claims = append(out.claims, one)
	}
	return out, nil
}

func variables() (all []cel.EnvOption) {
	for _, name := range []string{"user", "organization", "workspace"} {
		all = append(all, cel.Variable(name, cel.DynType))
	}
	for _, name := range []string{"agent", "tool", "call"} {
		all = append(all, cel.Variable(name, cel.MapType(cel.StringType, cel.StringType)))
	}
	return append(all, cel.Variable("permissions", cel.ListType(cel.StringType)))
}

// Claims returns the claims of a token by their names. The error names the claim whose expression fails, or whose value
// is too large; it contains nothing of the input.
func (t *Template) Claims(in Input) (map[string]json.RawMessage, error) {
	input := map[string]any{"permissions": in.Permissions}
	for name, value := range map[string]map[string]any{"user": in.User, "organization": in.Organization, "workspace": in.Workspace, "agent": in.Agent, "tool": in.Tool, "call": in.Call} {
		if value == nil {
			input[name] = nil
			continue
		}
		if !boundedcel.Short(value) {
			return nil, fmt.Errorf("%s has a text of more than %d bytes", name, boundedcel.MaxString)
		}
		input[name] = value
	}
	claims := map[string]json.RawMessage{}
	for _, one := range t.claims {
		value := one.value
		if one.program != nil {
			var err error
			if value, err = one.evaluate(input); err != nil {
				return nil, fmt.Errorf("claim %s: %w", one.name, err)
			}
		}
		claims[one.name] = value
	}
	return claims, nil
}

func (c *claim) evaluate(input map[string]any) (json.RawMessage, error) {
	out, _, err := c.program.Eval(input)
	if err != nil {
		return nil, errors.New("fails: " + reason(err))
	}
	native, err := out.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, fmt.Errorf("yields %s, which is no JSON", out.Type().TypeName())
	}
	raw, err := native.(*structpb.Value).MarshalJSON()
	if err == nil && len(raw) > MaxValue {
		err = fmt.Errorf("yields %d bytes: at most %d are allowed", len(raw), MaxValue)
	}
	return raw, err
}

// reason returns why an evaluation failed. CEL quotes values in its errors, and the input has personal data.
func reason(err error) string {
	for _, known := range []string{"no such key", "no such attribute", "no such overload", "operation cancelled: actual cost limit exceeded"} {
		if strings.Contains(err.Error(), known) {
			return known
		}
	}
	return "a function refuses its argument"
}
