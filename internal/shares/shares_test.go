package shares

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

type thing struct {
	Item[int]
	deployment string
	size       int64
}

// TestADeploymentWithinItsShareLosesNothing: independent of other deployments' entries and of their order.
func TestADeploymentWithinItsShareLosesNothing(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"small", "large"} {
		t.Run(first+" first", func(t *testing.T) {
			s := New[int, *thing](Bounds{Bytes: 1000})
			small := func() {
				for key := range 5 {
					s.Put(key, &thing{}, "small", 100)
				}
			}
			large := func() {
				for key := range 100 {
					s.Put(1000+key, &thing{}, "large", 100)
				}
			}
			if first == "small" {
				small()
				large()
			} else {
				large()
				small()
			}
			for key := range 5 {
				if _, held := s.Get(key); !held {
					t.Errorf("thing %d of the small deployment is not held", key)
				}
			}
			if s.Bytes() != 1000 || s.Len() != 10 {
				t.Errorf("%d bytes of %d things", s.Bytes(), s.Len())
			}
		})
	}
}

func TestOneDeploymentAloneHasEverything(t *testing.T) {
	t.Parallel()
	s := New[int, *thing](Bounds{Bytes: 1000})
	for key := range 20 {
		s.Put(key, &thing{}, "a", 100)
		s.Get(0) // in use all the time
	}
	if _, held := s.Get(0); !held || s.Len() != 10 || s.Evicted() != 10 {
		t.Errorf("%d things are held, %d were evicted; the one in use: %v", s.Len(), s.Evicted(), held)
	}
	if s.Put(99, &thing{}, "a", 501); s.Len() != 10 {
		t.Error("a thing of more than half of the set is held")
	}
}

func TestTheNumberOfADeploymentsThingsIsBounded(t *testing.T) {
	t.Parallel()
	s := New[int, *thing](Bounds{Bytes: 1000, DeploymentCount: 3})
	for key := range 20 {
		s.Put(key, &thing{}, fmt.Sprint(key%2), 1)
	}
	if s.Len() != 6 {
		t.Errorf("%d things", s.Len())
	}
}

// TestBoundsHold: after any puts and deletes the sums equal the cached entries' sizes, and are within the bounds.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := New[int, *thing](Bounds{Bytes: 1000, DeploymentCount: 8})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				made := &thing{deployment: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "deployment"), size: rapid.Int64Range(0, 600).Draw(t, "size")}
				s.Put(rapid.IntRange(0, 30).Draw(t, "key"), made, made.deployment, made.size)
			},
			"get":    func(t *rapid.T) { s.Get(rapid.IntRange(0, 30).Draw(t, "key")) },
			"delete": func(t *rapid.T) { s.Delete(rapid.IntRange(0, 30).Draw(t, "key")) },
			"clear":  func(*rapid.T) { s.Clear() },
			"": func(t *rapid.T) {
				sum, counts := int64(0), map[string]int{}
				for _, held := range s.things {
					sum += held.size
					counts[held.deployment]++
				}
				if sum != s.Bytes() || sum > 1000 || len(counts) != len(s.order) || len(counts) != len(s.owners) {
					t.Fatalf("%d bytes of %d, deployments %v, owners %d and %d", sum, s.Bytes(), counts, len(s.order), len(s.owners))
				}
				for deployment, n := range counts {
					if n > 8 || s.owners[deployment].count != n {
						t.Fatalf("%d things of %s, counted %d", n, deployment, s.owners[deployment].count)
					}
				}
			},
		})
	})
}

func TestDrainReturnsEverythingOldestFirst(t *testing.T) {
	t.Parallel()
	s := New[int, *thing](Bounds{Bytes: 1000, DeploymentCount: 3})
	for key := range 5 {
		s.Put(key, &thing{size: int64(key)}, "a", 10)
	}
	s.Put(9, &thing{size: 9}, "b", 10)
	all := s.Drain()
	if len(all) != 2 || len(all["a"]) != 3 || all["a"][0].size != 2 || all["a"][2].size != 4 || len(all["b"]) != 1 {
		t.Errorf("drained %v", all)
	}
	if s.Len() != 0 || s.Bytes() != 0 || s.Evicted() != 2 || len(s.Drain()) != 0 {
		t.Errorf("%d things of %d bytes are left, %d were evicted", s.Len(), s.Bytes(), s.Evicted())
	}
	s.Put(4, all["a"][2], "a", 10)
	if held, found := s.Get(4); !found || held != all["a"][2] {
		t.Error("a drained thing is not held again")
	}
}
