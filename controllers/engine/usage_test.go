package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

func TestADeploymentAndItsNamespaceTakeNoMoreThanTheirBounds(t *testing.T) {
	t.Parallel()
	limits := Limits{Documents: 10, Bytes: 1000}
	one := store.Usage{Documents: 1, Bytes: 100}
	for name, tc := range map[string]struct {
		limits  Limits
		used    map[string]store.Usage
		more    store.Usage
		refused bool
	}{
		"the first":                            {limits: limits, more: one},
		"the last that fits":                   {limits: limits, used: map[string]store.Usage{"ns/a": {Documents: 9, Bytes: 900}}, more: one},
		"one too many":                         {limits: limits, used: map[string]store.Usage{"ns/a": {Documents: 10, Bytes: 10}}, more: one, refused: true},
		"too large":                            {limits: limits, used: map[string]store.Usage{"ns/a": {Documents: 1, Bytes: 901}}, more: one, refused: true},
		"one that grows too much":              {limits: limits, used: map[string]store.Usage{"ns/a": {Documents: 10, Bytes: 1000}}, more: store.Usage{Bytes: 1}, refused: true},
		"one that grows, where there are many": {limits: limits, used: map[string]store.Usage{"ns/a": {Documents: 11, Bytes: 900}}, more: store.Usage{Bytes: 1}},
		"beside a full deployment":             {limits: limits, used: map[string]store.Usage{"ns/b": {Documents: 10, Bytes: 1000}}, more: one},
		"in a full namespace": {
			limits: limits, used: map[string]store.Usage{"ns/b": {Documents: 10, Bytes: 1000}, "ns/c": {Documents: 10, Bytes: 900}}, more: one, refused: true,
		},
		"without bounds": {used: map[string]store.Usage{"ns/a": {Documents: 1e6, Bytes: 1e12}}, more: one},
	} {
		err := tc.limits.admit(tc.used, "ns/a", "ns", tc.more)
		var terminal *TerminalError
		if refused := errors.As(err, &terminal) && terminal.Reason == v1alpha1.ReasonTooMany; refused != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type countedUsage struct {
	store.Documents
	used  map[string]store.Usage
	reads int
}

func (c *countedUsage) Usage(context.Context, string) (map[string]store.Usage, error) {
	c.reads++
	return c.used, nil
}

func TestUsageIsReadSeldomAndCountsWhatWasWrittenSince(t *testing.T) {
	t.Parallel()
	var u usages
	documents := &countedUsage{used: map[string]store.Usage{"ns/a": {Documents: 1, Bytes: 10}}}
	now := time.Unix(0, 0)
	look := func(age time.Duration, want store.Usage, reads int) {
		t.Helper()
		used, err := u.of(t.Context(), documents, "ns", now, age)
		if err != nil || used["ns/a"] != want || documents.reads != reads {
			t.Errorf("%v after %d reads, want %v after %d (%v)", used, documents.reads, want, reads, err)
		}
	}
	look(usageAge, store.Usage{Documents: 1, Bytes: 10}, 1)
	u.add("ns", "ns/a", store.Usage{Documents: 1, Bytes: 5})
	look(usageAge, store.Usage{Documents: 2, Bytes: 15}, 1)
	now = now.Add(2 * time.Second)
	look(refusedUsageAge, store.Usage{Documents: 1, Bytes: 10}, 2)
	u.forget("ns")
	look(usageAge, store.Usage{Documents: 1, Bytes: 10}, 3)
	now = now.Add(usageAge)
	look(usageAge, store.Usage{Documents: 1, Bytes: 10}, 4)
}
