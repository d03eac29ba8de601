package controllers

import (
	"crypto/rand"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/seal"
)

// NewManager fails if a kind of v1alpha1.Kinds has no controller. It sends no request to the API server.
func TestEveryKindHasAController(t *testing.T) {
	ring, err := seal.Load(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewManager(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}, nil, logr.Discard(), Options{
		Clock: time.Now, Random: rand.Reader, Keyring: ring, Resync: time.Hour, Heartbeat: time.Hour, Workers: 1, RequireHostGrants: true,
	})
	if err != nil {
		t.Error(err)
	}
}

// named returns the name that types and functions have for a kind.
func named(kind string) string {
	if kind == v1alpha1.KindIdentityDeployment {
		return "Deployment"
	}
	return kind
}

// The type of the stored content, and the function that translates a resource into it, are named after the kind.
func TestEveryKindHasContentAndTranslation(t *testing.T) {
	contents, translations := exported(t, "../internal/document"), exported(t, "../internal/translation")
	for _, info := range v1alpha1.Kinds {
		if name := named(info.Kind); !slices.Contains(contents, name) {
			t.Errorf("package document has no type %s for the stored content of a %s", name, info.Kind)
		} else if !slices.Contains(translations, name) {
			t.Errorf("package translation has no function %s that translates a %s", name, info.Kind)
		}
	}
}

// exported lists the exported types and functions of a package.
func exported(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s (%v)", folder, err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names = append(names, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						names = append(names, s.Name.Name)
					}
				}
			}
		}
	}
	return names
}

// Manifests that are not generated from v1alpha1.Kinds name exactly these kinds.
func TestEveryKindIsInTheManifests(t *testing.T) {
	var kinds, resources, crds []string
	for _, info := range v1alpha1.Kinds {
		kinds = append(kinds, info.Kind)
		resources = append(resources, info.Resource+".yaml")
		crds = append(crds, "bases/iam.cardea.dev_"+info.Resource+".yaml")
	}
	var project struct {
		Resources []struct{ Kind string }
	}
	read(t, "../PROJECT", &project)
	var inProject []string
	for _, resource := range project.Resources {
		inProject = append(inProject, resource.Kind)
	}
	same(t, "PROJECT", inProject, kinds)

	var list struct{ Resources []string }
	read(t, "../config/crd/kustomization.yaml", &list)
	same(t, "config/crd/kustomization.yaml", list.Resources, crds)
	read(t, "../config/rbac/users/kustomization.yaml", &list)
	same(t, "config/rbac/users/kustomization.yaml", list.Resources, resources)

	role, err := os.ReadFile("../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	samples := samplesText(t)
	for _, info := range v1alpha1.Kinds {
		if strings.Count(string(role), "- "+info.Resource+"\n") != 1 || strings.Count(string(role), "- "+info.Resource+"/status\n") != 1 {
			t.Errorf("config/rbac/role.yaml: the operator has no rights on %s: add its markers and run make manifests", info.Resource)
		}
		if !strings.Contains(samples, "kind: "+info.Kind+"\n") {
			t.Errorf("config/samples has no %s", info.Kind)
		}
	}
}

func samplesText(t *testing.T) (text string) {
	t.Helper()
	files, err := filepath.Glob("../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text += string(raw)
	}
	return text
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func same(t *testing.T, where string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s names %q, want %q", where, got, want)
	}
}
