package limits

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// fieldsByRules returns the fields of a result, made of its rules one by one.
func fieldsByRules(r *engine.Result) (limit, policy string) {
	var limits, policies []string
	alike := map[string]int{}
	for i := range r.Rules {
		rule := r.Rules[i].Rule
		name := rule.Text
		if alike[name]++; alike[name] > 1 {
			name += fmt.Sprint("#", alike[name])
		}
		item := fmt.Sprintf(`"%s";r=%d`, name, r.Rules[i].Remaining)
		if returns := r.Rules[i].Returns; returns > 0 {
			item += fmt.Sprint(";t=", (returns+999_999)/1_000_000)
		}
		limits, policies = append(limits, item), append(policies, `"`+name+`"`+rule.Policy)
	}
	return strings.Join(limits, ", "), strings.Join(policies, ", ")
}

// The texts that are prepared for a scheme are used only if they are those of the rules that matched.
func TestFieldsNameTheRulesThatMatched(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	modes, paths := []string{"per_key", "per_ip", "per_app"}, []string{"/v1/orders", "/v1/visits", "/v2"}
	draw := func() (rules []scheme.Rule) {
		for range 1 + random.IntN(4) {
			rule := scheme.Rule{Unit: "minute", Duration: 1 + random.Int64N(2), MaxRequests: 1 + random.Int64N(3), Mode: modes[random.IntN(len(modes))]}
			if random.IntN(2) == 0 {
				rule.Endpoints = paths[:1+random.IntN(len(paths))]
			}
			rules = append(rules, rule)
		}
		return rules
	}
	whole, part, named := 0, 0, 0
	for n := range uint64(2000) {
		e := engine.NewEngine(1 << 20)
		request := &engine.Request{Method: "GET", Path: paths[random.IntN(len(paths))], Key: n + 1, App: 7, Scheme: e.Scheme(2*n, draw())}
		if random.IntN(3) == 0 {
			request.AppScheme, request.WholeAppScheme = e.Scheme(2*n+1, draw()), random.IntN(2) == 0
		}
		out := &engine.Result{}
		for range 1 + random.IntN(4) {
			e.Decide(engine.Instant{Steady: 1e15, Wall: 1e15}, request, out)
		}
		header := http.Header{}
		WriteFields(header, out)
		limit, policy := fieldsByRules(out)
		if header.Get(FieldLimit) != limit || header.Get(FieldPolicy) != policy {
			t.Fatalf("%s\n%s\nwant\n%s\n%s", header.Get(FieldLimit), header.Get(FieldPolicy), limit, policy)
		}
		if out.Fields() != nil {
			whole++
		} else if len(out.Rules) > 0 {
			part++
		}
		if strings.Contains(policy, "#") {
			named++
		}
	}
	if whole < 100 || part < 100 || named < 100 {
		t.Errorf("%d results of a whole scheme, %d others, %d with equal texts: too few", whole, part, named)
	}
}
