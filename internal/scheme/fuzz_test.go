package scheme

import (
	"encoding/json"
	"testing"
)

// FuzzRules holds that rules are judged whatever they are, and that filling in what is absent changes neither what they mean nor
// whether they are valid.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{}]`, `[{"unit":"minute","duration":1,"max_requests":60}]`,
		`[{"unit":"month","duration":2,"max_requests":2147483648,"mode":"per_ip","endpoints":["POST /v1/*","*","/x"],"priority":-1}]`,
		`[{"unit":"millisecond","duration":60000,"max_requests":1,"endpoints":[]},{"unit":"","endpoints":[" "]}]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var rules []Rule
		if json.Unmarshal(raw, &rules) != nil {
			return
		}
		effective := Effective(rules)
		if !EqualEffective(rules, effective) || !EqualEffective(effective, rules) {
			t.Errorf("%s differs from what it means", raw)
		}
		if faults := Validate(rules); len(faults) == 0 && len(Validate(effective)) != 0 {
			t.Errorf("%s is valid, and what it means is not: %v", raw, Validate(effective))
		}
	})
}
