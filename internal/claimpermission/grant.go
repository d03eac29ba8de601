// Package claimpermission holds the rules by which a token's payload grants permissions: a claim, or a CEL expression
// over the whole payload.
package claimpermission

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
)

// CEL compares the cost of an evaluation with its bound after each step, so one step must not be able to take much.
// Hence:
//   - functions that multiply their operands are left out (forbidden);
//   - the strings of the payload are short (MaxString), and an expression adds lists only a few times
//     (maxConcatenations);
//   - the number of permissions is checked before they are copied (maxPermissions).
const (
	// MaxString is the longest string in a token's payload that an expression is evaluated over, in bytes.
	MaxString = 4 << 10
	// maxCost bounds one evaluation, in CEL's units of cost: an expression must not make requests expensive.
	maxCost = 100_000
	// maxRange bounds lists.range.
	maxRange = 1_000
	// maxConcatenations bounds the additions of lists in the text of an expression.
	maxConcatenations = 8
	// maxPermissions bounds the number of permissions that an expression yields.
	maxPermissions = 1_000
)

// forbidden are the functions whose result may be as long as the product of their operands.
var forbidden = map[string]bool{"join": true, "replace": true, "split": true}

// Expression is a compiled permissionsExpression.
type Expression struct{ program cel.Program }

// Compile compiles an expression over `claims` that yields a list of strings. The error says where the fault is and
// what it is.
func Compile(source string) (*Expression, error) {
	env, err := cel.NewEnv(cel.Variable("claims", cel.MapType(cel.StringType, cel.DynType)),
		ext.Strings(), ext.Lists(ext.ListsMaxRangeSize(maxRange)), ext.Sets())
	if err != nil {
		return nil, err
	}
	compiled, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, fmt.Errorf("does not compile: %w", issues.Err())
	}
	if err := check(compiled.NativeRep()); err != nil {
		return nil, err
	}
	if out := compiled.OutputType(); !out.IsExactType(cel.ListType(cel.StringType)) && !out.IsExactType(cel.ListType(cel.DynType)) && out != cel.DynType {
		return nil, fmt.Errorf("yields %s: it must yield a list of permissions", out)
	}
	program, err := env.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, err
	}
	return &Expression{program: program}, nil
}

// check refuses expressions that the cost bound would detect too late.
func check(compiled *ast.AST) (err error) {
	concatenations := 0
	ast.PostOrderVisit(compiled.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		if forbidden[call.FunctionName()] {
			err = fmt.Errorf("calls %s(), whose result may be far longer than the token: compare with ==, in, startsWith, endsWith, contains or matches instead", call.FunctionName())
		}
		if call.FunctionName() == operators.Add && mayBeList(compiled.GetType(e.ID())) && !accumulates(call) {
			concatenations++
		}
	}))
	if err == nil && concatenations > maxConcatenations {
		err = fmt.Errorf("adds lists %d times: at most %d times are allowed", concatenations, maxConcatenations)
	}
	return err
}

func mayBeList(t *types.Type) bool {
	return t.Kind() == types.ListKind || t.Kind() == types.DynKind
}

// accumulates reports whether a call is the addition with which map() and filter() collect their result. Such a call
// adds one element per step, and each step has a cost.
func accumulates(call ast.CallExpr) bool {
	first := call.Args()[0]
	return first.Kind() == ast.IdentKind && (first.AsIdent() == "@result" || first.AsIdent() == "__result__")
}

// Permissions evaluates the expression. An evaluation that fails, as on a missing claim, grants nothing and is reported
// in the error.
func (e *Expression) Permissions(claims map[string]any) ([]string, error) {
	if !short(claims) {
		return nil, fmt.Errorf("the token has a string of more than %d bytes", MaxString)
	}
	out, _, err := e.program.Eval(map[string]any{"claims": claims})
	if err != nil {
		return nil, err
	}
	list, ok := out.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("yields %s: it must yield a list of permissions", out.Type().TypeName())
	}
	if size, ok := list.Size().(types.Int); !ok || size > maxPermissions {
		return nil, fmt.Errorf("yields more than %d permissions", maxPermissions)
	}
	native, err := out.ConvertToNative(reflect.TypeFor[[]string]())
	if err != nil {
		return nil, errors.New("yields a list with elements that are not strings: it must yield a list of permissions")
	}
	return native.([]string), nil
}

// short reports whether every string of a JSON value, member names included, keeps the bound.
func short(value any) bool {
	switch value := value.(type) {
	case string:
		return len(value) <= MaxString
	case []any:
		for _, item := range value {
			if !short(item) {
				return false
			}
		}
	case map[string]any:
		for name, item := range value {
			if len(name) > MaxString || !short(item) {
				return false
			}
		}
	}
	return true
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
