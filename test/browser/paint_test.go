package browser

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

// BenchmarkFirstPaint opens the sign-in page, whose files the browser has cached. It reports the median and the longest
// time from the start of the navigation to the first content, in milliseconds.
func BenchmarkFirstPaint(b *testing.B) {
	v := arrives(b, frontendtest.New(b, nil), look{width: 1280}, true)
	var took []float64
	for range max(b.N, 20) {
		v.goes("/sign-in")
		v.until(`performance.getEntriesByName("first-contentful-paint").length === 1`)
		took = append(took, eval[float64](v.tab, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		v.run(chromedp.Navigate("about:blank"))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2], "ms-p50")
	b.ReportMetric(took[len(took)-1], "ms-max")
	b.ReportMetric(0, "ns/op")
}
