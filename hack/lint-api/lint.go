package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// fault is one broken rule, printed as file:line: message.
type fault struct {
	position token.Position
	message  string
}

// String returns the fault in the form of compiler errors, so that editors can jump to it.
func (f fault) String() string {
	return fmt.Sprintf("%s:%d: %s", f.position.Filename, f.position.Line, f.message)
}

// linter holds one package and the faults found in it.
type linter struct {
	files  *token.FileSet
	types  map[string]declared
	faults []fault
}

// declared is a type declaration and the markers of its doc comment.
type declared struct {
	spec    *ast.TypeSpec
	markers markers
}

// lint returns the faults of the package in a folder, in order of file and line. It skips tests and generated files.
func lint(folder string) ([]fault, error) {
	l := &linter{files: token.NewFileSet(), types: map[string]declared{}}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, path := range paths {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_generated") {
			continue
		}
		file, err := parser.ParseFile(l.files, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	if len(parsed) == 0 {
		return nil, &fs.PathError{Op: "lint", Path: folder, Err: os.ErrNotExist}
	}
	for _, file := range parsed {
		l.collect(file)
	}
	for _, file := range parsed {
		l.declarations(file)
	}
	slices.SortStableFunc(l.faults, func(a, b fault) int {
		return cmp.Or(strings.Compare(a.position.Filename, b.position.Filename), cmp.Compare(a.position.Line, b.position.Line))
	})
	return l.faults, nil
}

func (l *linter) fault(at token.Pos, format string, args ...any) {
	l.faults = append(l.faults, fault{l.files.Position(at), fmt.Sprintf(format, args...)})
}

// collect records the package's types, because either a field's own markers or those of its type bound it.
func (l *linter) collect(file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.TYPE {
			continue
		}
		for _, s := range group.Specs {
			spec := s.(*ast.TypeSpec)
			l.types[spec.Name.Name] = declared{spec, parseMarkers(docOf(group, spec.Doc))}
		}
	}
}

// docOf returns the comment of a spec: its own comment, or the comment of the declaration if that contains no other
// spec.
func docOf(group *ast.GenDecl, own *ast.CommentGroup) *ast.CommentGroup {
	if own == nil && len(group.Specs) == 1 {
		return group.Doc
	}
	return own
}

// declarations checks every exported type and constant of a file.
func (l *linter) declarations(file *ast.File) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range group.Specs {
			switch spec := s.(type) {
			case *ast.TypeSpec:
				l.typeDeclaration(spec, docOf(group, spec.Doc))
			case *ast.ValueSpec:
				if group.Tok == token.CONST && spec.Names[0].IsExported() && sentence(spec.Doc) == "" && sentence(group.Doc) == "" {
					l.fault(spec.Pos(), "constant %s has no doc comment: say when it applies", spec.Names[0].Name)
				}
			}
		}
	}
}

func (l *linter) typeDeclaration(spec *ast.TypeSpec, doc *ast.CommentGroup) {
	if !spec.Name.IsExported() {
		return
	}
	if sentence(doc) == "" {
		l.fault(spec.Pos(), "type %s has no doc comment: it is what kubectl explain shows", spec.Name.Name)
	}
	m := parseMarkers(doc)
	l.rules(spec.Pos(), spec.Name.Name, m)
	structure, ok := spec.Type.(*ast.StructType)
	// Lists and types with a marker object:generate are skipped: users do not write them, and no schema is generated
	// from them.
	if !ok || m.has("kubebuilder:object:generate") || m.has("kubebuilder:object:root") && strings.HasSuffix(spec.Name.Name, "List") {
		return
	}
	for _, field := range structure.Fields.List {
		l.field(spec.Name.Name, field)
	}
}

// field checks one field of a struct.
func (l *linter) field(parent string, field *ast.Field) {
	name, options := jsonName(field)
	if slices.Contains(options, "inline") || name == "-" {
		return
	}
	if name == "" {
		l.fault(field.Pos(), "a field of %s has no JSON name: tag it", parent)
		return
	}
	at := parent + "." + name
	if text := sentence(field.Doc); !strings.HasPrefix(text, name+" ") {
		l.fault(field.Pos(), "%s: its doc comment must begin with %q and say what the field does", at, name)
	}
	m := parseMarkers(field.Doc)
	l.rules(field.Pos(), at, m)
	required, optional := m.has("required"), m.has("optional")
	omitted := slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")
	switch {
	case required == optional:
		l.fault(field.Pos(), "%s: mark it with exactly one of +required and +optional", at)
	case optional && !omitted:
		l.fault(field.Pos(), "%s: it is +optional, so its tag needs omitempty or omitzero", at)
	case required && omitted:
		l.fault(field.Pos(), "%s: it is +required, so its tag must not have omitempty or omitzero", at)
	}
	l.bound(field.Pos(), at, field.Type, m)
}

// rules checks that every CEL rule has a message, which says how to fix a refused value.
func (l *linter) rules(at token.Pos, name string, m markers) {
	for _, rule := range m.all("kubebuilder:validation:XValidation") {
		if !strings.Contains(rule, "message=") && !strings.Contains(rule, "messageExpression=") {
			l.fault(at, "%s: a CEL rule has no message: say how to fix what it refuses", name)
		}
	}
}

// jsonName returns the name and the options of a field's json tag.
func jsonName(field *ast.Field) (string, []string) {
	if field.Tag == nil {
		return "", nil
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return "", nil
	}
	parts := strings.Split(reflect.StructTag(tag).Get("json"), ",")
	return parts[0], parts[1:]
}
