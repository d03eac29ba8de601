package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// unboundedIntegers are counted by Kubernetes, not by users: a bound on them would be a guess.
var unboundedIntegers = []string{"observedGeneration"}

// jsonNumbers are the fields that may be float64, because they are bounds of JSON numbers.
var jsonNumbers = []string{"SchemaField.minimum", "SchemaField.maximum"}

// boundedElsewhere are types of other packages whose schema is bounded by its format or by Kubernetes itself.
var boundedElsewhere = []string{"metav1.ObjectMeta", "metav1.Condition", "metav1.Time", "metav1.MicroTime"}

// markers are the `+name` and `+name=value` lines of a doc comment.
type markers []marker

type marker struct{ name, value string }

func parseMarkers(doc *ast.CommentGroup) markers {
	var found markers
	if doc == nil {
		return nil
	}
	for _, line := range doc.List {
		text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
		if !strings.HasPrefix(text, "+") {
			continue
		}
		name, value, _ := strings.Cut(text[1:], "=")
		// A marker with several arguments keeps them all in its value: XValidation:rule="...",message="...".
		if rest, isRule := strings.CutPrefix(name, "kubebuilder:validation:XValidation:"); isRule {
			name, value = "kubebuilder:validation:XValidation", rest+"="+value
		}
		found = append(found, marker{name, value})
	}
	return found
}

func (m markers) has(name string) bool {
	return slices.ContainsFunc(m, func(one marker) bool { return one.name == name })
}

func (m markers) all(name string) []string {
	var values []string
	for _, one := range m {
		if one.name == name {
			values = append(values, one.value)
		}
	}
	return values
}

// validates reports whether the markers include a validation marker of controller-gen, such as MaxLength.
func (m markers) validates(rule string) bool { return m.has("kubebuilder:validation:" + rule) }

// items returns the markers for a list's elements, named like markers of a field.
func (m markers) items() markers {
	var found markers
	for _, one := range m {
		if rest, ok := strings.CutPrefix(one.name, "kubebuilder:validation:items:"); ok {
			found = append(found, marker{"kubebuilder:validation:" + rest, one.value})
		}
	}
	return found
}

// sentence returns the first line of a doc comment that is not a marker.
func sentence(doc *ast.CommentGroup) string {
	if doc == nil {
		return ""
	}
	for line := range strings.Lines(doc.Text()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "+") {
			return line
		}
	}
	return ""
}

// bound checks that the markers of the field and of its type bound the size of a value.
func (l *linter) bound(at token.Pos, name string, expr ast.Expr, m markers) {
	switch t := expr.(type) {
	case *ast.StarExpr:
		l.bound(at, name, t.X, m)
	case *ast.Ident:
		if named, found := l.types[t.Name]; found {
			if _, isStruct := named.spec.Type.(*ast.StructType); !isStruct { // a struct's fields are checked at its declaration
				l.bound(at, name, named.spec.Type, slices.Concat(m, named.markers))
			}
			return
		}
		l.scalar(at, name, t.Name, m)
	case *ast.ArrayType:
		if !m.validates("MaxItems") {
			l.fault(at, "%s: a list needs MaxItems", name)
		}
		if !m.has("listType") {
			l.fault(at, "%s: a list needs +listType (atomic, set or map)", name)
		}
		if slices.Contains(m.all("listType"), "map") && !m.has("listMapKey") {
			l.fault(at, "%s: a list of listType map needs +listMapKey", name)
		}
		l.bound(at, name+"[]", t.Elt, m.items())
	case *ast.MapType:
		if !m.validates("MaxProperties") {
			l.fault(at, "%s: a map needs MaxProperties", name)
		}
		l.bound(at, name+"{}", t.Value, nil)
	default:
		if external := types.ExprString(expr); !slices.Contains(boundedElsewhere, external) {
			l.fault(at, "%s: nothing is known of the bounds of %s: use a type of this package, or list it in hack/lint-api", name, external)
		}
	}
}

func (l *linter) scalar(at token.Pos, name, kind string, m markers) {
	switch kind {
	case "bool":
	case "string":
		if !m.validates("MaxLength") && !m.validates("Enum") {
			l.fault(at, "%s: a string needs MaxLength or Enum", name)
		}
	case "int32", "int64":
		if slices.Contains(unboundedIntegers, name[strings.LastIndexByte(name, '.')+1:]) {
			return
		}
		if !m.validates("Minimum") || !m.validates("Maximum") {
			l.fault(at, "%s: an integer needs Minimum and Maximum", name)
		}
	case "float64":
		// Only a bound of JSON numbers may be a float64. A setting is an integer with a unit.
		if !slices.Contains(jsonNumbers, name) {
			l.fault(at, "%s: a float64 loses digits on the way: use an integer with a unit, or a decimal string", name)
		} else if !m.validates("Minimum") || !m.validates("Maximum") {
			l.fault(at, "%s: a number needs Minimum and Maximum", name)
		}
	default:
		l.fault(at, "%s: %s is no type for an API field: use string, int32, int64 or bool", name, kind)
	}
}
