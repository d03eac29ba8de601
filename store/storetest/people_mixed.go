package storetest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// neverMix returns the story of every fourth method that writes, beginning with one of the first four. Every method is
// compared with everything that can be read, which takes long: the stories run in parallel.
func neverMix(first int) story {
	return story{name: fmt.Sprintf("rows of one id in two deployments never mix, part %d", first+1), run: func(e *env) {
		e.begin()
		empty := e.pictureOf("apps/empty")
		e.change("apps/b", func(tx people.Tx) error { return furnish(tx, "b") })
		other := e.pictureOf("apps/b")
		e.Expect(e.pictureOf("apps/empty")).To(gomega.Equal(empty))
		for i, name := range slices.Sorted(maps.Keys(allWrites)) {
			if i%4 != first {
				continue
			}
			deployment, write := "apps/b-"+name, allWrites[name]
			e.change(deployment, func(tx people.Tx) error { return furnish(tx, name) })
			e.Expect(e.pictureOf("apps/b")).To(gomega.Equal(other), "after the deployment for %s was filled", name)
			before := e.pictureOf(deployment)
			e.change(deployment, write)
			e.Expect(e.pictureOf("apps/b")).To(gomega.Equal(other), "%s reached another deployment", name)
			if !slices.Contains(unseen, name) {
				e.Expect(e.pictureOf(deployment)).NotTo(gomega.Equal(before), "%s changed nothing that can be read", name)
			}
		}
		e.Expect(e.pictureOf("apps/empty")).To(gomega.Equal(empty))
	}}
}
