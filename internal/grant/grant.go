// Package grant holds the rules by which a token's payload grants permissions: a claim, or a CEL expression over the whole.
package grant

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// maxCost bounds one evaluation, in CEL's units of cost: an expression must not make requests expensive.
const maxCost = 100_000

// Expression is a compiled permissionsExpression.
type Expression struct{ program cel.Program }

// Compile compiles an expression over `claims` that yields a list of strings. The error says where and what.
func Compile(source string) (*Expression, error) {
	env, err := cel.NewEnv(cel.Variable("claims", cel.MapType(cel.StringType, cel.DynType)), ext.Strings(), ext.Lists(), ext.Sets())
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("does not compile: %w", issues.Err())
	}
	if out := ast.OutputType(); !out.IsExactType(cel.ListType(cel.StringType)) && !out.IsExactType(cel.ListType(cel.DynType)) && out != cel.DynType {
		return nil, fmt.Errorf("yields %s: it must yield a list of permissions", out)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, err
	}
	return &Expression{program: program}, nil
}

// Permissions evaluates the expression. An evaluation that fails, as on a missing claim, grants nothing and is told in the
// error.
func (e *Expression) Permissions(claims map[string]any) ([]string, error) {
	out, _, err := e.program.Eval(map[string]any{"claims": claims})
	if err != nil {
		return nil, err
	}
	native, err := out.ConvertToNative(reflect.TypeFor[[]string]())
	if err != nil {
		return nil, fmt.Errorf("yields %s: it must yield a list of permissions", out.Type().(*types.Type).TypeName())
	}
	return native.([]string), nil
}

// FromClaim reads permissions from a claim: a list of strings, or words split by blanks. Anything else grants nothing.
func FromClaim(claims map[string]any, name string) []string {
	switch value := claims[name].(type) {
	case string:
		return strings.Fields(value)
	case []any:
		var names []string
		for _, item := range value {
			if text, ok := item.(string); ok {
				names = append(names, text)
			}
		}
		return names
	}
	return nil
}
