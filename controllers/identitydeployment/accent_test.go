package identitydeployment

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/internal/contrast"
)

// accentRule is the rule of the schema that validates an accent color by an approximation.
func accentRule(t *testing.T) cel.Program {
	t.Helper()
	raw, err := os.ReadFile("../../config/crd/bases/iam.cardea.dev_identitydeployments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	rule := find(crd, "accentColor", func(field any) string {
		schema := field.(map[string]any)
		return schema["x-kubernetes-validations"].([]any)[0].(map[string]any)["rule"].(string)
	})
	env, err := cel.NewEnv(ext.Strings(), cel.Variable("self", cel.StringType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(rule)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// find returns the result of read for the first member called name, at any depth.
func find(in any, name string, read func(any) string) string {
	switch in := in.(type) {
	case map[string]any:
		if field, found := in[name]; found {
			return read(field)
		}
		for _, member := range in {
			if found := find(member, name, read); found != "" {
				return found
			}
		}
	case []any:
		for _, element := range in {
			if found := find(element, name, read); found != "" {
				return found
			}
		}
	}
	return ""
}

// Admission accepts every colour on which white text can be read. It also accepts a few slightly lighter colours, which
// the operator refuses.
func TestAdmissionApproximatesTheContrast(t *testing.T) {
	const slack = 0.1
	program := accentRule(t)
	hex := regexp.MustCompile(`^#[0-9a-f]{6}$`)
	for r := 0; r < 256; r += 5 {
		for g := 0; g < 256; g += 5 {
			for b := 0; b < 256; b += 15 {
				colour := contrast.Colour{R: uint8(r), G: uint8(g), B: uint8(b)}
				ratio := contrast.Ratio(colour, contrast.White)
				if ratio > contrast.Minimum+slack || ratio < contrast.Minimum-2*slack {
					continue // only near the bound can the two differ
				}
				written := strings.ToLower(colour.String())
				out, _, err := program.Eval(map[string]any{"self": written})
				if err != nil || !hex.MatchString(written) {
					t.Fatal(written, err)
				}
				if admitted := out.Value().(bool); ratio >= contrast.Minimum && !admitted || ratio < contrast.Minimum-slack && admitted {
					t.Fatalf("%s has a contrast of %.3f, admitted %v", written, ratio, admitted)
				}
			}
		}
	}
	for written, want := range map[string]bool{"#000000": true, "#0000ff": true, "#ffffff": false, "#00ff00": false, "#ff8800": false} {
		if out, _, err := program.Eval(map[string]any{"self": written}); err != nil || out.Value() != want {
			t.Errorf("%s: %v, %v", written, out, err)
		}
	}
}
