// Package boundedcel compiles CEL expressions that tenants declare, so that one evaluation takes bounded time and
// memory.
package boundedcel

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// CEL compares the cost of an evaluation with its bound after each step, so one step must not be able to take much.
// Hence:
//   - functions that multiply their operands are left out (forbidden);
//   - the strings of the input are short (MaxString), and an expression adds lists only a few times
//     (maxConcatenations).
const (
	// MaxString is the longest string of the input of an expression, in bytes.
	MaxString = 4 << 10
	// maxCost bounds one evaluation, in CEL's units of cost: an expression must not make requests expensive.
	maxCost = 100_000
	// maxRange bounds lists.range.
	maxRange = 1_000
	// maxConcatenations bounds the additions of lists in the text of an expression.
	maxConcatenations = 8
)

// forbidden are the functions whose result may be as long as the product of their operands.
var forbidden = map[string]bool{"join": true, "replace": true, "split": true}

// Compile compiles an expression over variables, and returns the type of its result. The error says where the fault is
// and what it is. Callers check the input of an evaluation with Short.
func Compile(source string, variables ...cel.EnvOption) (cel.Program, *types.Type, error) {
	env, err := cel.NewEnv(append(variables, ext.Strings(), ext.Lists(ext.ListsMaxRangeSize(maxRange)), ext.Sets())...)
	if err != nil {
		return nil, nil, err
	}
	compiled, issues := env.Compile(source)
	if issues.Err() != nil {
		return nil, nil, fmt.Errorf("does not compile: %w", issues.Err())
	}
	if err := check(compiled.NativeRep()); err != nil {
		return nil, nil, err
	}
	program, err := env.Program(compiled, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(100))
	return program, compiled.OutputType(), err
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

// Short reports whether every string of a JSON value, member names included, keeps the bound.
func Short(value any) bool {
	switch value := value.(type) {
	case string:
		return len(value) <= MaxString
	case []any:
		for _, item := range value {
			if !Short(item) {
				return false
			}
		}
	case map[string]any:
		for name, item := range value {
			if len(name) > MaxString || !Short(item) {
				return false
			}
		}
	}
	return true
}
