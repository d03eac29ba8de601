package enduser

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
)

// Every operation that writes declares its daily limit, or is bounded by client and account, and
// docs/security-model.md lists it.
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
	document, err := openapi.LoadEndUser()
	if err != nil {
		t.Fatal(err)
	}
	for pattern, needs := range document.Routes() {
		if !needs.Write {
			continue
		}
		want := "by client and account"
		switch {
		case needs.DailyLimit > 0:
			want = strconv.Itoa(needs.DailyLimit) + " a day"
		case needs.DailyLimit == openapi.NoDailyLimit:
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
