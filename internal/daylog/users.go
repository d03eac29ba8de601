package daylog

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
)

// Users is a set of users' numbers.
type Users = roaring.Bitmap

// NewUsers returns an empty set.
func NewUsers() *Users { return roaring.New() }

// unitedAtOnce is how many sets wait to be united: so many are held, however many come.
const unitedAtOnce = 16

// Uniting is the union of sets that come one after the other, some at once: that counts once for all of them, in half
// the time of each by itself. The zero value is empty.
type Uniting struct{ sets []*Users }

// Add takes a set in. It is not changed, and must not be any more.
func (u *Uniting) Add(set *Users) {
	if u.sets = append(u.sets, set); len(u.sets) > unitedAtOnce {
		u.sets = append(u.sets[:0:0], roaring.FastOr(u.sets...))
	}
}

// Users returns the union of the sets, which is read-only.
func (u *Uniting) Users() *Users { return roaring.FastOr(u.sets...) }

// EncodeUsers returns a set's bytes, in the interchange form of roaring bitmaps: compact, and the same for equal sets.
func EncodeUsers(users *Users) ([]byte, error) {
	// A copy by its members: what a set was made from leaves traces in how it is kept.
	compact := roaring.New()
	compact.Or(users)
	compact.RunOptimize()
	return compact.ToBytes()
}

// DecodeUsers reads the bytes of a set; none at all are the empty one. ErrCorrupt: they are no set's; what is damaged
// in other ways is for the caller's checksum to find.
func DecodeUsers(encoded []byte) (*Users, error) {
	users := roaring.New()
	if len(encoded) == 0 {
		return users, nil
	}
	if err := users.UnmarshalBinary(encoded); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return users, nil
}
