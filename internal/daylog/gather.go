package daylog

import "github.com/RoaringBitmap/roaring/v2"

// maxGathered bounds the user numbers that are kept in a plain bit set, which takes at most 32 MiB.
const maxGathered = 1 << 28

// Gathering is a set to which users are added in any order. It is a plain bit set: in a roaring bitmap, adding a user
// out of order moves the users behind it. The zero value is empty.
type Gathering struct {
	// bits has the users below maxGathered, and others has the rest.
	bits   []uint64
	others *Users
}

// Add adds a user.
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
