package install

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// This test uses no container engine. It runs the Dockerfile's build command in the Dockerfile's build context, and
// checks that the binary can run in an empty image.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds cardea")
	}
	if runtime.GOOS != "linux" {
		t.Skip("an image is for Linux")
	}
	steps := dockerfile(t)
	context := buildContext(t)
	output := t.TempDir()

	command := exec.CommandContext(t.Context(), "make", "build", "VERSION=v1.2.3-test", "OUT="+output)
	if !slices.ContainsFunc(steps, func(step string) bool { return strings.Contains(step, "make build VERSION=${VERSION} OUT=/out") }) {
		t.Errorf("the Dockerfile does not build with %s", command)
	}
	command.Dir = context
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS=") {
			command.Env = append(command.Env, variable)
		}
	}
	if log, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, log)
	}
	binary := filepath.Join(output, "cardea")
	if wanted := needs(t, binary); len(wanted) > 0 {
		t.Errorf("the binary is not static: it needs %q", wanted)
	}
	if shell, err := exec.LookPath("bash"); err == nil && len(needs(t, shell)) == 0 {
		t.Error("bash passes for static: this check cannot fail")
	}
	version, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if err != nil || strings.TrimSpace(string(version)) != "v1.2.3-test" {
		t.Errorf("cardea version: %q, %v", version, err)
	}

	last := slices.Index(steps, "FROM scratch")
	if last < 0 {
		t.Fatal("the image is not from scratch")
	}
	for _, step := range []string{
		"COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt",
		"COPY --from=build /out/cardea /cardea",
		"USER 65532:65532",
		`ENTRYPOINT ["/cardea"]`,
	} {
		if !slices.Contains(steps[last:], step) {
			t.Errorf("the image lacks: %s", step)
		}
	}
}

// needs returns what a binary requires from its system: a loader and libraries. An empty image has neither.
func needs(t *testing.T, binary string) []string {
	t.Helper()
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			libraries = append(libraries, segment.Type.String())
		}
	}
	return libraries
}

func dockerfile(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(content), "\n")
}

// buildContext copies the files that .dockerignore includes by `!`, without the patterns that it excludes afterwards.
func buildContext(t *testing.T) string {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for _, rule := range strings.Split(string(rules), "\n") {
		name, included := strings.CutPrefix(rule, "!")
		if !included {
			continue
		}
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			target := filepath.Join(to, relative)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				return err
			}
			return os.WriteFile(target, content, 0o644)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}
