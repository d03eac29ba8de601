package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestKeysSpreadEvenlyOverShardsForEverySeed: no shard gets more than twice its even part of the keys, whichever field
// of the keys counts up, and in whatever steps. The memory of a shard is bounded, so an overfull shard would evict
// counters of a deployment within its share.
func TestKeysSpreadEvenlyOverShardsForEverySeed(t *testing.T) {
	t.Parallel()
	const keys, seeds = 20_000, 200
	for field, set := range map[string]func(*blockKey, uint64){
		"scheme":  func(k *blockKey, v uint64) { k.scheme = v },
		"of":      func(k *blockKey, v uint64) { k.of = v },
		"address": func(k *blockKey, v uint64) { k.address = v },
	} {
		for _, shift := range []int{0, 1, 16, 48} {
			t.Run(fmt.Sprintf("%s in steps of %d", field, uint64(1)<<shift), func(t *testing.T) {
				t.Parallel()
				for range seeds {
					seed, held := rand.Uint64(), [shardCount]int{}
					for i := range uint64(keys) {
						key := blockKey{scheme: 2, mode: PerIP}
						set(&key, i<<shift)
						at := key.hash(seed) & (shardCount - 1)
						if held[at]++; held[at] > 2*keys/shardCount {
							t.Fatalf("seed %#x: shard %d holds more than %d of %d keys", seed, at, 2*keys/shardCount, keys)
						}
					}
				}
			})
		}
	}
}
