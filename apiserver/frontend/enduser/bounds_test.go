package enduser

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestEveryOperationHasABound compares docs/security-model.md with the operations: whoever adds one decides what it may leave.
func TestEveryOperationHasABound(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "security-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\| ([^|]+) \\|$").FindAllStringSubmatch(string(raw), -1) {
		listed[row[1]] = row[2]
	}
	for pattern, e := range endpoints {
		if !e.changes {
			continue
		}
		want := "by client and account"
		switch {
		case e.bound() > 0:
			want = strconv.Itoa(e.bound()) + " a day"
		case e.perDay == unbounded:
			want = "none of its own"
		}
		if listed[pattern] != want {
			t.Errorf("%s: docs/security-model.md says %q, the operation has %q", pattern, listed[pattern], want)
		}
		delete(listed, pattern)
	}
	for pattern := range listed {
		t.Errorf("docs/security-model.md lists %s, which writes nothing or is not served", pattern)
	}
}
