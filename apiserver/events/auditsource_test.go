package events

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// auditSource finds the actions of audit records, from where a record is made: the member Action of a literal of
// people.Audit. Its expression is replaced, step by step, by what it stands for:
//
//   - a concatenation by its parts, a constant by its value, a variable by each value that its function assigns to it
//   - a parameter by the argument of each call of its function, and a receiver by the value whose method is called:
//     both of the same call
//   - a member of a parameter by the member of each literal of its type, and that of a variable of the package by the
//     member of its literal
//   - a parameter that is converted to a string by the constants of its type
//   - a result of a function that is a parameter by what the functions return that are passed
//
// Functions and types are found by their names, calls also by the number of arguments. A function that is passed as a
// value is not followed otherwise. Where the source does not show a text, the action ends with anyText. An empty text
// means that there is no record. The text after a colon is for readers, and is left out.
type auditSource struct {
	calls map[string][]called
	// literals are the composite literals by the name of their type. The others are by the folder and the name: globals
	// are the values of constants and variables of a package, and constants those of a type.
	literals, constants map[string][]part
	globals             map[string]part
}

// anyText stands for a text that the source does not show.
const anyText = "*"

// maxSteps bounds the steps from a record to its action: calls can be recursive.
const maxSteps = 30

// scope is a declaration with the folder of its package and its file. function is nil for constants and variables.
type scope struct {
	folder, path string
	node         ast.Decl
	function     *ast.FuncDecl
}

// part is an expression of a scope.
type part struct {
	expr ast.Expr
	in   *scope
}

// called is a call of a function.
type called struct {
	call *ast.CallExpr
	in   *scope
}

// newAuditSource reads the source.
func newAuditSource(t *testing.T) *auditSource {
	t.Helper()
	s := &auditSource{calls: map[string][]called{}, literals: map[string][]part{}, constants: map[string][]part{}, globals: map[string]part{}}
	eachFile(t, func(path string, file *ast.File) {
		for _, declared := range file.Decls {
			in := &scope{folder: filepath.Dir(path), path: path, node: declared}
			switch declared := declared.(type) {
			case *ast.FuncDecl:
				in.function = declared
			case *ast.GenDecl:
				s.declare(declared, in)
			}
			ast.Inspect(declared, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					s.calls[nameOf(n.Fun)] = append(s.calls[nameOf(n.Fun)], called{n, in})
				case *ast.CompositeLit:
					s.literals[nameOf(n.Type)] = append(s.literals[nameOf(n.Type)], part{n, in})
				}
				return true
			})
		}
	}, "apiserver", "controllers", "cmd", "internal")
	return s
}

// declare keeps the constants and variables of a package.
func (s *auditSource) declare(declared *ast.GenDecl, in *scope) {
	for _, spec := range declared.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range values.Names {
			if i >= len(values.Values) {
				continue
			}
			value := part{values.Values[i], in}
			s.globals[in.folder+" "+name.Name] = value
			if values.Type != nil && declared.Tok == token.CONST {
				of := in.folder + " " + nameOf(values.Type)
				s.constants[of] = append(s.constants[of], value)
			}
		}
	}
}

// nameOf is the last name of a function or type, without its package and type arguments.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.IndexListExpr:
		return nameOf(e.X)
	case *ast.StarExpr:
		return nameOf(e.X)
	}
	return ""
}

// actions returns the actions of all audit records, each with a file that names it.
func (s *auditSource) actions(t *testing.T) map[string]string {
	found := map[string]string{}
	for _, literal := range s.literals["Audit"] {
		action := member(literal, "Action")
		if action == nil {
			continue
		}
		for _, value := range s.resolve([]part{{action, literal.in}}, 0) {
			if value.text == anyText {
				t.Errorf("%s: this test cannot find an action of the audit", value.path)
			}
			found[value.text] = value.path
		}
	}
	return found
}

// member returns the value of a member in a composite literal, nil if it has none.
func member(literal part, name string) ast.Expr {
	composite, ok := literal.expr.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, element := range composite.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok && nameOf(pair.Key) == name {
			return pair.Value
		}
	}
	return nil
}

// resolved is a text with the file of the last step.
type resolved struct{ text, path string }

// resolve returns the texts that consecutive parts can have.
func (s *auditSource) resolve(parts []part, steps int) (texts []resolved) {
	before := ""
	for i, p := range parts {
		if literal, ok := p.expr.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			if err != nil || text == "" {
				return nil
			}
			before += text
			if action, _, cut := strings.Cut(before, ":"); cut || i == len(parts)-1 {
				return []resolved{{action, p.in.path}}
			}
			continue
		}
		var alternatives [][]part
		if steps < maxSteps {
			alternatives = s.step(parts, i)
		}
		if alternatives == nil {
			return []resolved{{before + anyText, p.in.path}}
		}
		for _, next := range alternatives {
			texts = append(texts, s.resolve(next, steps+1)...)
		}
		return texts
	}
	return nil
}

// step replaces one part by what it stands for. If that depends on the caller, it replaces all parts of the function.
// It returns nil if the source does not show it.
func (s *auditSource) step(parts []part, at int) [][]part {
	p := parts[at]
	switch e := p.expr.(type) {
	case *ast.ParenExpr:
		return replaced(parts, at, []part{{e.X, p.in}})
	case *ast.BinaryExpr:
		return replaced(parts, at, []part{{e.X, p.in}, {e.Y, p.in}})
	case *ast.CallExpr:
		if nameOf(e.Fun) != "string" {
			return nil
		}
		if kind := typeOf(p.in, e.Args[0]); kind != nil {
			return replaced(parts, at, ofEach(s.constants[p.in.folder+" "+nameOf(kind)])...)
		}
		return replaced(parts, at, []part{{e.Args[0], p.in}})
	case *ast.Ident:
		if typeOf(p.in, e) != nil {
			return s.callers(parts, p.in)
		}
		if values := s.assigned(p.in, e.Name); values != nil {
			return replaced(parts, at, ofEach(values)...)
		}
		if value, ok := s.globals[p.in.folder+" "+e.Name]; ok {
			return replaced(parts, at, []part{value})
		}
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok && receiverOf(p.in) == of.Name {
			return s.callers(parts, p.in)
		} else if ok {
			return replaced(parts, at, ofEach(s.members(p.in, of, e.Sel.Name))...)
		}
	}
	return nil
}

// members returns the values of a member of a parameter, or of a variable of the package.
func (s *auditSource) members(in *scope, of *ast.Ident, name string) (values []part) {
	literals := []part{s.globals[in.folder+" "+of.Name]}
	if kind := typeOf(in, of); kind != nil {
		literals = s.literals[nameOf(kind)]
	}
	for _, literal := range literals {
		if value := member(literal, name); value != nil {
			values = append(values, part{value, literal.in})
		}
	}
	return values
}

// ofEach returns alternatives of one part each.
func ofEach(values []part) (alternatives [][]part) {
	for _, value := range values {
		alternatives = append(alternatives, []part{value})
	}
	return alternatives
}

// replaced returns the parts with each of the alternatives in place of one.
func replaced(parts []part, at int, alternatives ...[]part) (all [][]part) {
	for _, alternative := range alternatives {
		all = append(all, slices.Concat(parts[:at], alternative, parts[at+1:]))
	}
	return all
}

// callers returns the parts as each caller of a function has them.
func (s *auditSource) callers(parts []part, of *scope) (all [][]part) {
	params := namesOf(of.function.Type.Params)
	for _, c := range s.callsOf(of) {
		selected, _ := c.call.Fun.(*ast.SelectorExpr)
		next := slices.Clone(parts)
		for i, p := range parts {
			if p.in != of {
				continue
			}
			switch e := p.expr.(type) {
			case *ast.Ident:
				if n := slices.Index(params, e.Name); n >= 0 {
					next[i] = part{c.call.Args[n], c.in}
				}
			case *ast.SelectorExpr:
				if x, ok := e.X.(*ast.Ident); ok && selected != nil && x.Name == receiverOf(of) {
					next[i] = part{&ast.SelectorExpr{X: selected.X, Sel: e.Sel}, c.in}
				}
			}
		}
		all = append(all, next)
	}
	return all
}

// callsOf returns the calls of a function: those in its package, or in any if it is exported.
func (s *auditSource) callsOf(of *scope) (calls []called) {
	for _, c := range s.calls[of.function.Name.Name] {
		_, selected := c.call.Fun.(*ast.SelectorExpr)
		near := c.in.folder == of.folder
		if len(c.call.Args) != len(namesOf(of.function.Type.Params)) || !near && !of.function.Name.IsExported() {
			continue
		}
		if isMethod := of.function.Recv != nil; isMethod && selected || !isMethod && selected != near {
			calls = append(calls, c)
		}
	}
	return calls
}

// assigned returns what a function assigns to a variable or constant of its own.
func (s *auditSource) assigned(in *scope, name string) (values []part) {
	ast.Inspect(in.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if nameOf(left) != name {
					continue
				}
				if len(n.Rhs) == len(n.Lhs) {
					values = append(values, part{n.Rhs[i], in})
				} else if call, ok := n.Rhs[0].(*ast.CallExpr); ok {
					values = append(values, s.results(call, in, i)...)
				}
			}
		case *ast.ValueSpec:
			for i, left := range n.Names {
				if left.Name == name && i < len(n.Values) && in.function != nil {
					values = append(values, part{n.Values[i], in})
				}
			}
		}
		return true
	})
	return values
}

// results returns a result of the functions that are passed as the called parameter.
func (s *auditSource) results(call *ast.CallExpr, in *scope, result int) (values []part) {
	if typeOf(in, call.Fun) == nil {
		return nil
	}
	param := slices.Index(namesOf(in.function.Type.Params), nameOf(call.Fun))
	for _, c := range s.callsOf(in) {
		ast.Inspect(c.call.Args[param], func(n ast.Node) bool {
			if returned, ok := n.(*ast.ReturnStmt); ok && len(returned.Results) > result {
				values = append(values, part{returned.Results[result], c.in})
			}
			return true
		})
	}
	return values
}

// typeOf returns the type of a parameter of a function, nil if the expression is none.
func typeOf(in *scope, e ast.Expr) ast.Expr {
	name, ok := e.(*ast.Ident)
	if !ok || in.function == nil {
		return nil
	}
	for _, field := range in.function.Type.Params.List {
		for _, param := range field.Names {
			if param.Name == name.Name {
				return field.Type
			}
		}
	}
	return nil
}

// receiverOf returns the name of a method's receiver, "" if there is none.
func receiverOf(in *scope) string {
	if in.function == nil || in.function.Recv == nil {
		return ""
	}
	return strings.Join(namesOf(in.function.Recv), "")
}

// namesOf returns the names of parameters.
func namesOf(fields *ast.FieldList) (names []string) {
	for _, field := range fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}
