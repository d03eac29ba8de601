package bearer

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// splitters match code that splits a token.
var splitters = regexp.MustCompile(`(strings|bytes)\.(Count|Split\w*|Cut|Index\w*|LastIndex\w*|FieldsFunc)\([^\n]*["']\.["']|"eyJ`)

// Only this package decides the form of a credential. The listed files split other texts.
func TestNoOtherPackageSplitsTokens(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	noTokens := []string{
		"apiserver/connection/attempt.go",       // states of attempts
		"apiserver/events/catalogue.go",         // types of events
		"apiserver/frontend/pages/assets.go",    // file names
		"apiserver/httpapi/site/site.go",        // host names
		"apiserver/scim/path.go",                // paths of attributes
		"cmd/kubectl-cardea/events.go",          // types of events
		"internal/domainname/domainname.go",     // domain names
		"internal/eventtype/eventtype.go",       // types of events
		"internal/relyingparty/relyingparty.go", // domain names
		"internal/seal/seal.go",                 // sealed values
	}
	files := 0
	for _, folder := range []string{"apiserver", "internal", "cmd", "controllers", "store"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			if name = filepath.ToSlash(name); strings.HasPrefix(name, "apiserver/credential/bearer/") || slices.Contains(noTokens, name) {
				return nil
			}
			files++
			text, err := os.ReadFile(path)
			if found := splitters.Find(text); found != nil {
				t.Errorf("%s has %q: use bearer.Classify, or list the file here if it splits no token", name, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 500 {
		t.Errorf("%d files were read", files)
	}
}
