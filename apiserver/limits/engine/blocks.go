package engine

// own makes the block of a part. If there is no room for the block of an address, the address shares one block with
// other such addresses of its scheme and shard. New addresses also share that block as long as it counts anything, so
// no address gets a second quota when there is room again.
func (e *Engine) own(s *shard, p *part, now Instant) []uint64 {
	t := s.tableOf(p.scheme.owner, p.shard)
	words := p.program.layout.modes[p.key.mode].words
	_, length := arenaOf(words)
	size := int64(length * 8)
	if p.key.address != 0 {
		if b := e.sharedAddresses(s, t, p, size, now); b != nil {
			return b
		}
	}
	for s.bytes+size > e.maxShard && e.makeRoom(s, t, size, now) {
	}
	return s.insert(t, &p.key, p.hash, words, p.program.layout.number)
}

// sharedAddresses returns the block that an address shares with others, nil if the address can have its own block.
func (e *Engine) sharedAddresses(s *shard, t *table, p *part, size int64, now Instant) []uint64 {
	full := s.addressBytes+size > e.maxShard/2 && !e.makeAddressRoom(s, t, size, now)
	if !full && !t.shared {
		return nil
	}
	other := part{scheme: p.scheme, program: p.program, key: p.key, shard: p.shard}
	other.key.address = otherAddresses
	other.hash = other.key.hash(e.seed)&^(shardCount-1) | uint64(p.shard)
	b := s.find(t, &other.key, other.hash)
	if !full && (b == nil || int64(b[wordOver]) <= now.Steady) {
		return nil
	}
	if b == nil {
		b = s.insert(t, &other.key, other.hash, p.program.layout.modes[p.key.mode].words, p.program.layout.number)
	} else if layoutNumber(b) < p.program.layout.number {
		b = e.migrate(s, &other, b, now)
	}
	t.shared = true
	s.shared++
	return b
}

// migrate gives a part's block the layout of its program. Counters whose identity is unchanged continue, the others
// start empty.
func (e *Engine) migrate(s *shard, p *part, old []uint64, now Instant) []uint64 {
	past := p.scheme.layoutOf(layoutNumber(old))
	next := &p.program.layout.modes[p.key.mode]
	// The old block is copied first, because insert may reuse its memory.
	before := append([]uint64(nil), old...)
	t := &p.scheme.owner.tables[p.shard]
	at, _, _ := s.look(t, &p.key, p.hash)
	s.remove(t, at)
	b := s.insert(t, &p.key, p.hash, next.words, p.program.layout.number)
	b[wordUsed], b[wordOver] = before[wordUsed], before[wordOver]
	if past == nil {
		return b
	}
	for i := range next.rows {
		to := &next.rows[i]
		for j := range past.modes[p.key.mode].rows {
			if from := &past.modes[p.key.mode].rows[j]; from.identity == to.identity {
				transfer(&from.window, from.of(before, &from.window), &to.window, to.of(b, &to.window), now)
			}
		}
	}
	return b
}

// transfer copies the counted requests from a window to another window of the same length. If the kinds differ, a
// request may leave the new window late, but never early.
func transfer(from *window, s state, to *window, into state, now Instant) {
	if *from == *to {
		*into.head = *s.head
		copy(into.body, s.body)
		return
	}
	move := func(at, n int64) {
		moment := Instant{Steady: at}
		to.used(into, moment)
		to.charge(into, moment, n)
	}
	if from.kind == ring {
		from.ringUsed(s, now.Steady)
		from.ringTimes(s, func(at int64) { move(at, 1) })
		return
	}
	from.cellsRoll(s, now.Steady/from.cell)
	from.cellsEach(s, func(index, n int64) {
		if to.kind == ring { // a ring keeps no more, and the newest decide
			move((index+1)*from.cell-1, min(n, int64(to.capacity)))
			return
		}
		move(index*from.cell, n)
	})
}
