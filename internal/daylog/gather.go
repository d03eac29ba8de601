package daylog

import "github.com/RoaringBitmap/roaring/v2"

// maxGathered is below which number users are gathered in a plain set of bits, 32 MiB at most.
const maxGathered = 1 << 28

// Gathering is a set of users that grows in no order: a plain set of bits, because in a roaring bitmap each user out of
// order moves the following ones. The zero value is empty.
type Gathering struct {
	// bits are the users below maxGathered, and others are the rest.
	bits   []uint64
	others *Users
}

// Add puts a user in.
func (g *Gathering) Add(user uint32) {
	if user >= maxGathered {
		if g.others == nil {
			g.others = NewUsers()
		}
		g.others.Add(user)
		return
	}
	word := int(user / 64)
	if word >= len(g.bits) {
		g.bits = append(g.bits, make([]uint64, word+1-len(g.bits))...)
	}
	g.bits[word] |= 1 << (user % 64)
}

// Users returns the users of the set. The gathering is empty afterwards.
func (g *Gathering) Users() *Users {
	users := roaring.FromDense(g.bits, true)
	if g.others != nil {
		users.Or(g.others)
	}
	*g = Gathering{}
	return users
}
