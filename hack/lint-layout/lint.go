package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// maxFile and maxFunction are in lines. Lines of composite literals and generated files do not count.
	maxFile, maxFunction = 399, 60
	// maxMethods is how many methods a type may declare, or an interface may have.
	maxMethods = 40
	// maxDepth is how many folders below apiserver a package may be.
	maxDepth = 3
	// maxComment is how long a line of a comment may be, and maxText a line of a page, in characters. Tables, code and
	// single words, such as links, may be longer.
	maxComment, maxText = 120, 140
	// page lists the packages, in the section that begins with heading.
	page, heading = "docs/architecture.md", "\n## Packages\n"
)

// skipped are folders without packages of this module.
var skipped = []string{".git", "bin", "testdata", "node_modules"}

// source is a Go file.
type source struct {
	path string
	text []byte
	set  *token.FileSet
	file *ast.File
}

// lint returns the faults of the repository at a root, sorted.
func lint(root string) ([]string, error) {
	packages, err := read(root)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	faults := listed(string(text), packages)
	named, err := ofPages(root, packages)
	if err != nil {
		return nil, err
	}
	faults = append(faults, named...)
	for folder, files := range packages {
		faults = append(faults, ofTests(files)...)
		faults = append(faults, ofPackage(folder, files)...)
		faults = append(faults, ofTypes(folder, files)...)
		for _, f := range files {
			faults = append(faults, ofFile(f)...)
			faults = append(faults, ofComments(f)...)
		}
	}
	slices.Sort(faults)
	return faults, nil
}

// read returns the Go files of every package by folder. It omits packages whose files are all generated, except
// apiserver/httpapi/openapi/enduserapi.
func read(root string) (map[string][]source, error) {
	packages := map[string][]source{}
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(skipped, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(at, ".go") {
			return nil
		}
		f := source{set: token.NewFileSet()}
		if f.text, err = os.ReadFile(at); err != nil {
			return err
		}
		relative, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		f.path = filepath.ToSlash(relative)
		if f.file, err = parser.ParseFile(f.set, f.path, f.text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		folder := path.Dir(f.path)
		packages[folder] = append(packages[folder], f)
		return nil
	})
	for folder, files := range packages {
		if !slices.ContainsFunc(files, func(f source) bool {
			return !ast.IsGenerated(f.file) || folder == "apiserver/httpapi/openapi/enduserapi"
		}) {
			delete(packages, folder)
		}
	}
	return packages, err
}

// listed compares the packages with the table of the page.
func listed(text string, packages map[string][]source) (faults []string) {
	_, section, found := strings.Cut(text, heading)
	if !found {
		return []string{page + ": has no section Packages; list every package in one"}
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		folder := strings.Trim(cells[1], " `")
		switch {
		case rows[folder]:
			faults = append(faults, fmt.Sprintf("%s: lists %s twice", page, folder))
		case packages[folder] == nil:
			faults = append(faults, fmt.Sprintf("%s: lists %s, which is no package; remove the row", page, folder))
		case strings.TrimSpace(cells[2]) == "":
			faults = append(faults, fmt.Sprintf("%s: does not say what %s holds", page, folder))
		}
		rows[folder] = true
	}
	for folder := range packages {
		if !rows[folder] {
			faults = append(faults, fmt.Sprintf("%s: does not list %s; add a row", page, folder))
		}
	}
	return faults
}

// ofPackage checks a package's depth and doc comment.
func ofPackage(folder string, files []source) (faults []string) {
	if below, ok := strings.CutPrefix(folder, "apiserver/"); ok && strings.Count(below, "/")+1 > maxDepth {
		faults = append(faults, fmt.Sprintf("%s: is more than %d folders below apiserver", folder, maxDepth))
	}
	if !slices.ContainsFunc(files, func(f source) bool { return f.file.Doc != nil }) {
		faults = append(faults, folder+": has no doc comment; begin one with \"Package "+path.Base(folder)+"\"")
	}
	return faults
}

// ofTypes checks how many methods the types of a package have. Generated files and tests do not count.
func ofTypes(folder string, files []source) (faults []string) {
	if strings.HasPrefix(folder+"/", "test/") {
		return nil
	}
	methods, interfaces := map[string]int{}, map[string]*ast.InterfaceType{}
	for _, f := range files {
		if ast.IsGenerated(f.file) || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[receiver(n.Recv.List[0].Type)]++
				}
			case *ast.TypeSpec:
				if declared, ok := n.Type.(*ast.InterfaceType); ok {
					interfaces[n.Name.Name] = declared
				}
			}
			return true
		})
	}
	for name := range interfaces {
		methods[name] = methodsOf(name, interfaces)
	}
	for name, count := range methods {
		if count > maxMethods {
			faults = append(faults, fmt.Sprintf("%s: %s has %d methods; split it, %d are the most", folder, name, count, maxMethods))
		}
	}
	return faults
}

// receiver returns the name of a method's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// methodsOf counts the methods of an interface, with those of interfaces of its package that it embeds.
func methodsOf(name string, interfaces map[string]*ast.InterfaceType) (count int) {
	declared := interfaces[name]
	if declared == nil {
		return 0
	}
	for _, member := range declared.Methods.List {
		if embedded, ok := member.Type.(*ast.Ident); ok && len(member.Names) == 0 {
			count += methodsOf(embedded.Name, interfaces)
		}
		count += len(member.Names)
	}
	return count
}

// numbered matches the name of a test that begins with an id, such as TestM1Turns. It also matches TestB2B..., which
// does not begin with an id: ofTests excludes it.
var numbered = regexp.MustCompile(`^Test([A-Z]{1,6})\d+[A-Z]`)

// ofTests checks that the names of tests do not begin with ids of reports or checklists.
func ofTests(files []source) (faults []string) {
	for _, f := range files {
		for _, declared := range f.file.Decls {
			function, ok := declared.(*ast.FuncDecl)
			if !ok || !strings.HasSuffix(f.path, "_test.go") {
				continue
			}
			if found := numbered.FindStringSubmatch(function.Name.Name); found != nil && !strings.HasPrefix(function.Name.Name, "TestB2B") {
				faults = append(faults, fmt.Sprintf("%s: %s begins with an id; name what it proves, and list the id in docs/assurance.md", f.path, function.Name.Name))
			}
		}
	}
	return faults
}

// quoted matches the name of a test in a page.
var quoted = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)`")

// ofPages checks that the tests that pages name exist.
func ofPages(root string, packages map[string][]source) (faults []string, err error) {
	tests := map[string]bool{}
	for _, files := range packages {
		for _, f := range files {
			for _, declared := range f.file.Decls {
				if function, ok := declared.(*ast.FuncDecl); ok {
					tests[function.Name.Name] = true
				}
			}
		}
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(at, ".md") {
			return err
		}
		text, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		faults = append(faults, ofLines("docs/"+filepath.Base(at), text)...)
		for _, found := range quoted.FindAllSubmatch(text, -1) {
			if name := string(found[1]); !tests[name] {
				faults = append(faults, fmt.Sprintf("docs/%s: names %s, which does not exist; name the test that proves it", filepath.Base(at), name))
			}
		}
		return nil
	})
	return faults, err
}

// ofComments checks the length of the lines of comments.
func ofComments(f source) (faults []string) {
	if ast.IsGenerated(f.file) {
		return nil
	}
	for i, line := range strings.Split(string(f.text), "\n") {
		text := strings.TrimLeft(line, "\t ")
		directive := strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "// +")
		if strings.HasPrefix(text, "//") && !directive && strings.Count(text, " ") > 1 && utf8.RuneCountInString(line) > maxComment {
			faults = append(faults, fmt.Sprintf("%s:%d: the comment has more than %d characters; break the line", f.path, i+1, maxComment))
		}
	}
	return faults
}

// generated are the generated pages, whose lines may be longer.
var generated = []string{"docs/resources.md"}

// ofLines checks the length of the lines of a page.
func ofLines(name string, text []byte) (faults []string) {
	fenced := false
	for i, line := range strings.Split(string(text), "\n") {
		fenced = fenced != strings.HasPrefix(strings.TrimSpace(line), "```")
		words := strings.Count(strings.TrimSpace(line), " ")
		if fenced || strings.HasPrefix(line, "|") || words < 2 || utf8.RuneCountInString(line) <= maxText || slices.Contains(generated, name) {
			continue
		}
		faults = append(faults, fmt.Sprintf("%s:%d: the line has more than %d characters; break it", name, i+1, maxText))
	}
	return faults
}

// ofFile checks the length of a file and of its functions. Tests are exempt.
func ofFile(f source) (faults []string) {
	if ast.IsGenerated(f.file) || strings.HasSuffix(f.path, "_test.go") {
		return nil
	}
	if lines := bytes.Count(f.text, []byte("\n")) - literals(f.set, f.file); lines > maxFile {
		faults = append(faults, fmt.Sprintf("%s: has %d lines; split it, %d are the most", f.path, lines, maxFile))
	}
	for _, declared := range f.file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if lines := span(f.set, function) - literals(f.set, function); lines > maxFunction {
			faults = append(faults, fmt.Sprintf("%s: %s has %d lines; split it, %d are the most", f.path, function.Name.Name, lines, maxFunction))
		}
	}
	return faults
}

// literals returns how many lines of a node are inside composite literals, such as tables.
func literals(set *token.FileSet, in ast.Node) (lines int) {
	ast.Inspect(in, func(n ast.Node) bool {
		if table, ok := n.(*ast.CompositeLit); ok {
			lines += span(set, table) - 1
			return false
		}
		return true
	})
	return lines
}

// span returns how many lines a node has.
func span(set *token.FileSet, n ast.Node) int {
	return set.Position(n.End()).Line - set.Position(n.Pos()).Line + 1
}
