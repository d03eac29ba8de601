package gitops

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// difference is one resource that an engine reports as OutOfSync, in one of its ways of comparing.
type difference struct {
	kind, name, way string
	// paths are the fields in which the live resource and the result of a sync differ; none: the resource is missing.
	paths []string
	// declared are the paths that Git declares.
	declared []string
	// torn reports whether the engine predicted from another version of the resource than it compared with. Another
	// client wrote between its two reads, so the difference does not show what a sync would change.
	torn bool
}

func (d difference) String() string {
	text := fmt.Sprintf("%s %s compared %s differs in %s", d.kind, d.name, d.way, strings.Join(d.paths, ", "))
	if len(d.paths) == 0 {
		text = fmt.Sprintf("%s %s compared %s is missing, or OutOfSync without a known difference", d.kind, d.name, d.way)
	}
	if d.torn {
		text += " (between two reads)"
	}
	return text
}

// excused reports whether the difference is an HTTP write to fields that Git does not declare, between the two reads of
// one comparison. Declared fields are the same in every version, so a difference in them is never excused.
func (d difference) excused() bool { return d.torn && len(d.paths) > 0 && len(d.declared) == 0 }

// newDifference returns the difference between a live resource and the predicted result of a sync. base is the version
// that the prediction was made from, or "" if it was made from live itself.
func newDifference(way string, desired, live, predicted *unstructured.Unstructured, base string) difference {
	d := difference{kind: desired.GetKind(), name: desired.GetName(), way: way}
	if live == nil || predicted == nil {
		return d
	}
	d.torn = base != "" && base != live.GetResourceVersion()
	for _, path := range differing(compared(live), compared(predicted), nil) {
		d.paths = append(d.paths, strings.Join(path, "."))
		if declares(desired, path) {
			d.declared = append(d.declared, strings.Join(path, "."))
		}
	}
	return d
}

// compared returns a resource without the fields that only the API server and the operator write.
func compared(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	delete(object.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return object.Object
}

// differing returns the paths at which two values differ, down to values that are not maps.
func differing(one, other any, at []string) [][]string {
	a, isMap := one.(map[string]any)
	b, isMapToo := other.(map[string]any)
	if !(isMap || one == nil) || !(isMapToo || other == nil) || one == nil && other == nil {
		if reflect.DeepEqual(one, other) {
			return nil
		}
		return [][]string{at}
	}
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	var paths [][]string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		paths = append(paths, differing(a[key], b[key], append(slices.Clone(at), key))...)
	}
	return paths
}

// declares reports whether an object has a value at a path, or a value that is not a map above the path.
func declares(object *unstructured.Unstructured, path []string) bool {
	_, found, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	return found || err != nil
}

// outOfSync compares once. It returns what the engine reports as OutOfSync with a commit, and the number of differences
// that only arose between two reads.
func (n *tenant) outOfSync(commit []*unstructured.Unstructured) (faults []string, excused int, err error) {
	differences, err := n.engine.drift(n.ctx, commit)
	for _, d := range differences {
		if d.excused() {
			excused++
		} else {
			faults = append(faults, d.String())
		}
	}
	return faults, excused, err
}

// expectInSync expects one comparison to find nothing out of sync, whatever HTTP writes meanwhile.
func (n *tenant) expectInSync() {
	faults, _, err := n.outOfSync(n.commit)
	n.Expect(err).NotTo(HaveOccurred())
	n.Expect(faults).To(BeEmpty())
}

// lookout compares a whole commit repeatedly, as an engine does.
type lookout struct {
	n      *tenant
	commit []*unstructured.Unstructured
	stop   func()
	done   sync.WaitGroup

	mu sync.Mutex
	// compared counts comparisons of single resources.
	compared, excused int
	faults            []string
}

// watch compares a commit until the returned lookout ends, at the latest when the test ends.
func (n *tenant) watch(t *testing.T, commit []*unstructured.Unstructured) *lookout {
	stop := make(chan struct{})
	l := &lookout{n: n, commit: copies(commit), stop: sync.OnceFunc(func() { close(stop) })}
	l.done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				l.look()
			}
		}
	})
	t.Cleanup(l.end)
	return l
}

func (l *lookout) look() {
	for i := range l.commit {
		faults, excused, err := l.n.outOfSync(l.commit[i : i+1])
		if err != nil {
			faults = append(faults, err.Error())
		}
		l.mu.Lock()
		l.compared++
		l.excused += excused
		for _, fault := range faults {
			l.faults = append(l.faults, fmt.Sprintf("look %d: %s", l.compared/len(l.commit)+1, fault))
		}
		l.mu.Unlock()
	}
}

// end stops the comparisons and waits for the one under way.
func (l *lookout) end() {
	l.stop()
	l.done.Wait()
}

func (l *lookout) seen() (compared int, faults []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.compared, slices.Clone(l.faults)
}

// reaches waits until a number of comparisons of the whole commit are done, as long as they progress. It ends early
// with the first that is not clean. The speed depends on the engine.
func (l *lookout) reaches(looks int) {
	for taken := 0; taken < looks*len(l.commit); {
		l.n.Eventually(func() (int, error) {
			now, faults := l.seen()
			if len(faults) > 0 {
				return now, StopTrying(faults[0])
			}
			return now, nil
		}, within).Should(BeNumerically(">", taken))
		taken, _ = l.seen()
	}
}

// expectClean ends the comparisons and expects each to be clean.
func (l *lookout) expectClean(t *testing.T) {
	l.end()
	compared, faults := l.seen()
	l.n.Expect(faults).To(BeEmpty())
	t.Logf("%d looks at %d resources, each clean; in %d comparisons HTTP wrote between the engine's two reads", compared/len(l.commit), len(l.commit), l.excused)
}

func TestADifferenceIsExcusedOnlyBetweenTwoReadsAndInOpenFields(t *testing.T) {
	object := func(version string, spec, labels map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"kind": "K", "spec": spec, "status": map[string]any{"at": version},
			"metadata": map[string]any{"name": "n", "resourceVersion": version, "labels": labels},
		}}
	}
	type m = map[string]any
	declared := object("", m{"name": "Free", "rules": []any{"a"}}, m{"by": "git"})
	live := object("1", m{"name": "Free", "rules": []any{"a"}, "description": "one"}, m{"by": "git"})
	for name, tc := range map[string]struct {
		predicted *unstructured.Unstructured
		base      string
		want      string
		excused   bool
	}{
		"open, written meanwhile":             {object("2", m{"name": "Free", "rules": []any{"a"}, "description": "two"}, m{"by": "git"}), "2", "spec.description", true},
		"open, added meanwhile":               {object("2", m{"name": "Free", "rules": []any{"a"}, "description": "one", "more": m{"x": "y"}}, m{"by": "git"}), "2", "spec.more.x", true},
		"open, in one version":                {object("1", m{"name": "Free", "rules": []any{"a"}, "description": "two"}, m{"by": "git"}), "1", "spec.description", false},
		"open, predicted from live":           {object("1", m{"name": "Free", "rules": []any{"a"}}, m{"by": "git"}), "", "spec.description", false},
		"declared, written meanwhile":         {object("2", m{"name": "Other", "rules": []any{"a"}, "description": "one"}, m{"by": "git"}), "2", "spec.name", false},
		"a declared list":                     {object("2", m{"name": "Free", "rules": []any{"b"}, "description": "one"}, m{"by": "git"}), "2", "spec.rules", false},
		"a declared label":                    {object("2", m{"name": "Free", "rules": []any{"a"}, "description": "one"}, nil), "2", "metadata.labels.by", false},
		"one of each":                         {object("2", m{"name": "Other", "rules": []any{"a"}, "description": "two"}, m{"by": "git"}), "2", "spec.description,spec.name", false},
		"nothing that differs, but OutOfSync": {object("2", live.Object["spec"].(m), m{"by": "git"}), "2", "", false},
		"missing":                             {nil, "", "", false},
	} {
		d := newDifference("as synced", declared, live, tc.predicted, tc.base)
		if got := strings.Join(d.paths, ","); got != tc.want || d.excused() != tc.excused {
			t.Errorf("%s: %s, excused %t; want %q, %t", name, d, d.excused(), tc.want, tc.excused)
		}
	}
}
