// Package claimpermission holds the rules by which a token's payload grants permissions: a claim, or a CEL expression
// over the whole payload.
package claimpermission

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/cardea-iam/cardea/internal/boundedcel"
)

// MaxString is the longest string in a token's payload that an expression is evaluated over, in bytes.
const MaxString = boundedcel.MaxString

// maxPermissions bounds the number of permissions that an expression yields, before they are copied.
const maxPermissions = 1_000

// Expression is a compiled permissionsExpression.
type Expression struct{ program cel.Program }

// Compile compiles an expression over `claims` that yields a list of strings. The error says where the fault is and
// what it is.
func Compile(source string) (*Expression, error) {
	program, out, err := boundedcel.Compile(source, cel.Variable("claims", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		return nil, err
	}
	if !out.IsExactType(cel.ListType(cel.StringType)) && !out.IsExactType(cel.ListType(cel.DynType)) && out != cel.DynType {
		return nil, fmt.Errorf("yields %s: it must yield a list of strings", out)
	}
	return &Expression{program: program}, nil
}

// Permissions evaluates the expression. An evaluation that fails, as on a missing claim, grants nothing and is reported
// in the error.
func (e *Expression) Permissions(claims map[string]any) ([]string, error) {
	if !boundedcel.Short(claims) {
		return nil, fmt.Errorf("the token has a string of more than %d bytes", MaxString)
	}
	out, _, err := e.program.Eval(map[string]any{"claims": claims})
	if err != nil {
		return nil, err
	}
	list, ok := out.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("yields %s: it must yield a list of strings", out.Type().TypeName())
	}
	if size, ok := list.Size().(types.Int); !ok || size > maxPermissions {
		return nil, fmt.Errorf("yields more than %d permissions", maxPermissions)
	}
	native, err := out.ConvertToNative(reflect.TypeFor[[]string]())
	if err != nil {
		return nil, errors.New("yields a list with elements that are not strings: it must yield a list of strings")
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
