package engine

// A full shard makes room by deployments. Each deployment has an equal share of the shard, and of the half that blocks
// of addresses may take. To make room for a new block, the shard evicts a block of:
//   - the same deployment, if that exceeds its share;
//   - otherwise another deployment that exceeds its share;
//   - the same deployment, if there is no other.
//
// So no other deployment can evict the counters of a deployment within its share.

const (
	// sample is how many blocks an eviction compares.
	sample = 16
	// lightPart is the part of its limit below which a counter is light: a hundredth.
	lightPart = 100
)

// makeRoom evicts one block to make room for a new block of a table. It reports whether it could.
func (e *Engine) makeRoom(s *shard, t *table, size int64, now Instant) bool {
	share := e.maxShard / int64(max(1, s.active))
	if t.bytes+size > share && e.evict(s, t, now, anyBlock) {
		return true
	}
	if from := s.exceeding(t, share, (*table).held); from != nil && e.evict(s, from, now, anyBlock) {
		return true
	}
	return e.evict(s, t, now, anyBlock)
}

// makeAddressRoom makes room for a new block of a table among the blocks of addresses. It reports whether it could. It
// first frees empty blocks of the table. Then it evicts:
//   - light blocks of the table, if that exceeds its share;
//   - otherwise blocks of another table that exceeds its share: light ones first, then idle ones.
func (e *Engine) makeAddressRoom(s *shard, t *table, size int64, now Instant) bool {
	most := e.maxShard / 2
	s.sweepTable(t, now.Steady, 64)
	for s.addressBytes+size > most {
		addressed := s.addressed
		if t.addressBytes == 0 {
			addressed++
		}
		share := most / int64(max(1, addressed))
		if t.addressBytes+size > share {
			if !e.evict(s, t, now, lightAddress) {
				return false
			}
			continue
		}
		from := s.exceeding(t, share, (*table).heldByAddresses)
		if from == nil || !e.evict(s, from, now, lightAddress) && !e.evict(s, from, now, anyAddress) {
			return false
		}
	}
	return true
}

func (t *table) held() int64            { return t.bytes }
func (t *table) heldByAddresses() int64 { return t.addressBytes }

// exceeding returns a table that holds more than a share, other than the given one; nil if there is none. It returns
// the same table again as long as that exceeds the share.
func (s *shard) exceeding(than *table, share int64, held func(*table) int64) *table {
	for range s.tables {
		if s.victim >= len(s.tables) {
			s.victim = 0
		}
		if t := s.tables[s.victim]; t != than && held(t) > share {
			return t
		}
		s.victim++
	}
	return nil
}

// candidates are the blocks that an eviction may take.
type candidates uint8

const (
	anyBlock candidates = iota
	// anyAddress are the blocks of single addresses.
	anyAddress
	// lightAddress are the blocks of single addresses whose counters are all light.
	lightAddress
)

// evict compares up to sample candidates of a table, and frees the one that was idle for longest. It frees none that is
// in use at this moment. It reports whether it freed a block.
func (e *Engine) evict(s *shard, t *table, now Instant, of candidates) bool {
	oldest, oldestUse, seen, at := -1, now.Steady, 0, int(t.sweepAt)
	for i := 0; i < len(t.slots) && seen < sample; i++ {
		at = (int(t.sweepAt) + i) & (len(t.slots) - 1)
		if t.slots[at] == 0 {
			continue
		}
		b := s.block(uint32(t.slots[at]) - 1)
		if address := b[wordAddress]; of != anyBlock && (address == 0 || address == otherAddresses) {
			continue
		}
		seen++
		if used := int64(b[wordUsed]); used < oldestUse && (of != lightAddress || e.light(t.owner, b, now)) {
			oldest, oldestUse = at, used
		}
	}
	if oldest < 0 {
		t.sweepAt = int32(at) // the next eviction compares other blocks
		return false
	}
	if int64(s.block(uint32(t.slots[oldest]) - 1)[wordOver]) > now.Steady {
		s.evicted++
	}
	s.remove(t, oldest)
	t.sweepAt = int32((oldest + 1) & (len(t.slots) - 1))
	return true
}

// light reports whether every counter of a block is below a hundredth of its limit. A block of a scheme that the engine
// no longer knows is light, and a block with another layout than the scheme is not.
func (e *Engine) light(of *owner, b []uint64, now Instant) bool {
	known, found := e.schemes.Load(schemeKey{of, b[wordScheme]})
	if !found {
		return true
	}
	p := known.(*Scheme).program.Load()
	if layoutNumber(b) != p.layout.number {
		return false
	}
	mode := Mode(b[wordLayout])
	for i := range p.rules {
		rule := &p.rules[i]
		if rule.Mode != mode {
			continue
		}
		if rule.window.used(rule.of(b, &rule.window), now)*lightPart >= rule.Limit {
			return false
		}
	}
	return true
}
