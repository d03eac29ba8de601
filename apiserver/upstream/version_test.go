package upstream

import (
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// A document is fetched again after an hour, after failures in 5 s, 30 s and then each minute, for a sign-in that has
// none at once, and for an unknown key in 30 s.
func TestWhenDocumentsAreFetchedAgain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 26, 12, 0, 0, 0, time.UTC)
	src := source{kind: people.UpstreamJWKS, url: "https://idp.example/jwks", fits: func(c content) bool { return c.keys != nil }}
	has := content{keys: &keySet{}}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	good := func(fetched time.Duration) version {
		return version{content: has, url: src.url, fetchedAt: ago(fetched), validUntil: ago(fetched).Add(freshFor), triedAt: ago(fetched)}
	}
	failed := func(v version, failures int, tried time.Duration) version {
		v.failures, v.triedAt = failures, ago(tried)
		return v
	}
	moved := good(time.Minute)
	moved.url = "https://former.example/jwks"
	for name, tc := range map[string]struct {
		v        version
		periodic time.Duration // from now; -1 for any time before now
		needed   time.Duration
	}{
		"never fetched":                       {version{}, -1, -1},
		"good":                                {good(20 * time.Minute), 40 * time.Minute, -1},
		"good, just now":                      {good(10 * time.Second), 3590 * time.Second, 20 * time.Second},
		"good, old":                           {good(61 * time.Minute), -1, -1},
		"failed once":                         {failed(version{}, 1, 2*time.Second), 3 * time.Second, -1},
		"failed just now":                     {failed(version{}, 1, 0), 5 * time.Second, time.Second},
		"failed twice":                        {failed(version{}, 2, 2*time.Second), 28 * time.Second, -1},
		"failed three times":                  {failed(version{}, 3, 2*time.Second), 58 * time.Second, -1},
		"failed often":                        {failed(version{}, 3000, 2*time.Second), 58 * time.Second, -1},
		"failed once after a good one":        {failed(good(2*time.Hour), 1, 2*time.Second), 3 * time.Second, 3 * time.Second},
		"failed three times after a good one": {failed(good(2*time.Hour), 3, 2*time.Second), 58 * time.Second, 28 * time.Second},
		"of another URL":                      {moved, -1, -1},
		"failed after another URL":            {failed(moved, 1, 2*time.Second), 3 * time.Second, -1},
		"8 days old":                          {good(8 * 24 * time.Hour), -1, -1},
	} {
		for which, want := range map[wish]time.Duration{{periodic: true}: tc.periodic, {keyID: "unknown"}: tc.needed} {
			at := which.fetchAt(&tc.v, src, now)
			if got := at.Sub(now); want >= 0 && got != want || want < 0 && at.After(now) {
				t.Errorf("%s, %+v: in %v, want %v", name, which, got, want)
			}
		}
	}
	changed := failed(good(2*time.Hour), 3, 2*time.Second)
	if at := (wish{periodic: true, since: ago(time.Second)}).fetchAt(&changed, src, now); at.After(now) {
		t.Errorf("a changed connection waits until %v", at)
	}
	if at := (wish{periodic: true, since: ago(3 * time.Second)}).fetchAt(&changed, src, now); !at.After(now) {
		t.Error("a connection that was tried since its change is fetched again at once")
	}
}

// Metadata of SAML that were refused are fetched for sign-ins as seldom as for periodic checks, unless their URL
// changed or this server has not tried it.
func TestRefusedSAMLMetadataAreFetchedSeldom(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, time.November, 26, 12, 0, 0, 0, time.UTC)
	const url = "https://idp.example/metadata"
	for name, tc := range map[string]struct {
		kind, tried string
		failures    int
		want        time.Duration
	}{
		"never tried":           {people.UpstreamSAML, url, 0, time.Second},
		"failed once":           {people.UpstreamSAML, url, 1, 5 * time.Second},
		"failed twice":          {people.UpstreamSAML, url, 2, 30 * time.Second},
		"failed often":          {people.UpstreamSAML, url, 3000, time.Minute},
		"failed at another URL": {people.UpstreamSAML, "https://former.example", 3, time.Second},
		"failed elsewhere":      {people.UpstreamSAML, "", 3, time.Second},
		"a failed discovery":    {people.UpstreamDiscovery, url, 3, time.Second},
	} {
		src := source{kind: tc.kind, url: url, fits: func(content) bool { return true }}
		v := version{tried: tc.tried, failures: tc.failures, triedAt: now}
		if got := (wish{}).fetchAt(&v, src, now).Sub(now); got != tc.want {
			t.Errorf("%s: in %v, want %v", name, got, tc.want)
		}
	}
}
