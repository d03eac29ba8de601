package shares

import (
	"fmt"
	"testing"
	"time"
)

func TestADeploymentBeyondItsBoundLosesItsOwnValues(t *testing.T) {
	t.Parallel()
	c, now := NewCache[string, int](Bounds{Bytes: 1000, DeploymentBytes: 100}), time.Unix(0, 0)
	c.Put("a", "a", 1, 50, now)
	for n := range 1000 {
		c.Put("b", fmt.Sprint("b", n), n, 10, now)
	}
	if _, found := c.Get("a", now); !found {
		t.Error("another share's entry was evicted")
	}
	if entries, bytes := c.Size(); entries != 11 || bytes != 150 {
		t.Errorf("%d entries, %d bytes", entries, bytes)
	}
	if _, found := c.Get("b990", now); !found {
		t.Error("a recently used entry was evicted")
	}
}

func TestAFullCacheEvictsFromADeploymentBeyondItsShare(t *testing.T) {
	t.Parallel()
	c, now := NewCache[string, int](Bounds{Bytes: 250, DeploymentBytes: 100}), time.Unix(0, 0)
	c.Put("small", "small", 1, 10, now)
	for _, share := range []string{"a", "b", "c", "d"} {
		for n := range 10 {
			c.Put(share, fmt.Sprint(share, n), n, 10, now)
		}
	}
	if _, found := c.Get("small", now); !found {
		t.Error("the smallest share lost its entry")
	}
	if _, bytes := c.Size(); bytes > 250 {
		t.Errorf("%d bytes", bytes)
	}
}

func TestValuesAreReplacedDroppedAndRefused(t *testing.T) {
	t.Parallel()
	c, now := NewCache[string, int](Bounds{Bytes: 1000, DeploymentBytes: 100}), time.Unix(0, 0)
	c.Put("a", "k", 1, 50, now)
	c.Put("a", "k", 2, 60, now)
	if got, found := c.Get("k", now); !found || got != 2 {
		t.Errorf("%d, %v", got, found)
	}
	if _, bytes := c.Size(); bytes != 60 {
		t.Errorf("%d bytes", bytes)
	}
	c.Put("a", "large", 3, 101, now)
	if _, found := c.Get("large", now); found {
		t.Error("a value larger than a share is stored")
	}
	c.Put("b", "young", 1, 1, now.Add(time.Hour))
	c.DropUnused(now.Add(time.Minute))
	if entries, bytes := c.Size(); entries != 1 || bytes != 1 {
		t.Errorf("%d entries, %d bytes", entries, bytes)
	}
}
