// Package daylog is the compact form of the events that analytics counts on one UTC day: the sign-ins with their users,
// and the creation of accounts, organizations and workspaces. Times are in microseconds. A user is only a number, dense
// from 0 within a deployment, so that the form has no personal data. A Day has one encoding, whatever the order of its
// events: equal days have equal bytes.
//
// # The encoding
//
// The encoding begins with a byte for the version (1). Four sections follow: sign-ins, sign-ups, organizations and
// workspaces. A section begins with the number of its events and the number of its bytes that follow. An event is the
// number of microseconds since the event before it, or since midnight for the first one. A sign-in also has the user's
// number. Every number is an unsigned varint. With millions of users, a sign-in takes 6 to 8 bytes.
package daylog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// Microseconds is how long a day is: UTC days have no leap seconds here.
const Microseconds = 24 * 60 * 60 * 1_000_000

// version is the first byte of an encoding.
const version = 1

// ErrCorrupt means that the bytes are no encoding of a day.
var ErrCorrupt = errors.New("the log of a day is damaged")

// SignIn is one sign-in.
type SignIn struct {
	// At is microseconds after midnight, below Microseconds.
	At int64
	// User is the user's number.
	User uint32
}

// Day has the events of one day. Times are microseconds after midnight.
type Day struct {
	SignIns                            []SignIn
	SignUps, Organizations, Workspaces []int64
}

// Counts are numbers of events.
type Counts struct{ SignUps, Organizations, Workspaces int64 }

// Len returns how many events there are.
func (d *Day) Len() int {
	return len(d.SignIns) + len(d.SignUps) + len(d.Organizations) + len(d.Workspaces)
}

// Counts returns how many accounts, organizations and workspaces were created.
func (d *Day) Counts() Counts {
	return Counts{int64(len(d.SignUps)), int64(len(d.Organizations)), int64(len(d.Workspaces))}
}

// Add adds the events of another day. Neither day needs to be ordered, because Encode orders the events.
func (d *Day) Add(more *Day) {
	d.SignIns = append(d.SignIns, more.SignIns...)
	d.SignUps = append(d.SignUps, more.SignUps...)
	d.Organizations = append(d.Organizations, more.Organizations...)
	d.Workspaces = append(d.Workspaces, more.Workspaces...)
}

// Users returns the users who signed in.
func (d *Day) Users() *Users {
	var users Gathering
	for _, s := range d.SignIns {
		users.Add(s.User)
	}
	return users.Users()
}

// Encode orders the events and returns their encoding.
func (d *Day) Encode() []byte {
	slices.SortFunc(d.SignIns, func(a, b SignIn) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.User, b.User)) })
	out := make([]byte, 0, 64+8*len(d.SignIns)+4*(d.Len()-len(d.SignIns)))
	out = append(out, version)
	section := make([]byte, 0, 8*len(d.SignIns))
	last := int64(0)
	for _, s := range d.SignIns {
		section = binary.AppendUvarint(section, uint64(s.At-last))
		section = binary.AppendUvarint(section, uint64(s.User))
		last = s.At
	}
	out = appendSection(out, len(d.SignIns), section)
	for _, times := range [][]int64{d.SignUps, d.Organizations, d.Workspaces} {
		slices.Sort(times)
		section, last = section[:0], 0
		for _, at := range times {
			section = binary.AppendUvarint(section, uint64(at-last))
			last = at
		}
		out = appendSection(out, len(times), section)
	}
	return out
}

func appendSection(out []byte, events int, section []byte) []byte {
	out = binary.AppendUvarint(out, uint64(events))
	out = binary.AppendUvarint(out, uint64(len(section)))
	return append(out, section...)
}

// Decode reads a whole encoding. No bytes at all are a day without events. It returns ErrCorrupt for bytes that Encode
// cannot have returned.
func Decode(encoded []byte) (*Day, error) {
	var d Day
	l, err := open(encoded)
	if err != nil {
		return nil, err
	}
	d.SignIns = make([]SignIn, 0, l.sections[0].events)
	if err := l.signIns(func(s SignIn) { d.SignIns = append(d.SignIns, s) }); err != nil {
		return nil, err
	}
	for i, to := range []*[]int64{&d.SignUps, &d.Organizations, &d.Workspaces} {
		times := make([]int64, 0, l.sections[1+i].events)
		if err := l.times(1+i, func(at int64) { times = append(times, at) }); err != nil {
			return nil, err
		}
		if len(times) > 0 {
			*to = times
		}
	}
	if len(d.SignIns) == 0 {
		d.SignIns = nil
	}
	return &d, nil
}

// Between counts the events of an encoded day that happened at or after from and before to. It calls seen with the user
// of each sign-in in this time. It allocates no memory for the events.
func Between(encoded []byte, from, to int64, seen func(user uint32)) (Counts, error) {
	l, err := open(encoded)
	if err != nil {
		return Counts{}, err
	}
	err = l.signIns(func(s SignIn) {
		if s.At >= from && s.At < to {
			seen(s.User)
		}
	})
	var c Counts
	for i, count := range []*int64{&c.SignUps, &c.Organizations, &c.Workspaces} {
		if err == nil {
			err = l.times(1+i, func(at int64) {
				if at >= from && at < to {
					*count++
				}
			})
		}
	}
	return c, err
}

// log is an encoding that was cut into its sections.
type log struct {
	sections [4]struct {
		events int
		bytes  []byte
	}
}

func open(encoded []byte) (log, error) {
	var l log
	if len(encoded) == 0 {
		return l, nil
	}
	if encoded[0] != version {
		return l, ErrCorrupt
	}
	rest := encoded[1:]
	for i := range l.sections {
		events, n := binary.Uvarint(rest)
		if n <= 0 {
			return l, ErrCorrupt
		}
		rest = rest[n:]
		size, n := binary.Uvarint(rest)
		// An event takes at least one byte. This bounds the events for which Decode allocates memory by the number of
		// bytes.
		if n <= 0 || size > uint64(len(rest)-n) || events > size {
			return l, ErrCorrupt
		}
		l.sections[i].events, l.sections[i].bytes = int(events), rest[n:n+int(size)]
		rest = rest[n+int(size):]
	}
	if len(rest) > 0 {
		return l, ErrCorrupt
	}
	return l, nil
}

func (l *log) signIns(each func(SignIn)) error {
	section := l.sections[0]
	var last SignIn
	at := 0
	for n := range section.events {
		delta, behind := number(section.bytes, at)
		user, end := number(section.bytes, behind)
		at = end
		now := last.At + int64(delta)
		if end <= behind || delta >= Microseconds || now >= Microseconds || user > 1<<32-1 || delta == 0 && n > 0 && uint32(user) < last.User {
			return ErrCorrupt
		}
		last = SignIn{now, uint32(user)}
		each(last)
	}
	if at != len(section.bytes) {
		return ErrCorrupt
	}
	return nil
}

func (l *log) times(of int, each func(at int64)) error {
	section := l.sections[of]
	last, at := int64(0), 0
	for range section.events {
		delta, end := number(section.bytes, at)
		if end <= at || delta >= Microseconds || last+int64(delta) >= Microseconds {
			return ErrCorrupt
		}
		at, last = end, last+int64(delta)
		each(last)
	}
	if at != len(section.bytes) {
		return ErrCorrupt
	}
	return nil
}

// number reads the varint at an index and returns the index of the next one. It returns the same index if there is no
// valid varint. It does not use binary.Uvarint, because this loop is faster and a summary reads millions of numbers.
func number(b []byte, at int) (n uint64, next int) {
	for i, shift := at, 0; i < len(b) && shift < 42; i, shift = i+1, shift+7 {
		c := b[i]
		if c == 0 && i > at {
			return 0, at // not the shortest form of the number
		}
		if c < 0x80 {
			return n | uint64(c)<<shift, i + 1
		}
		n |= uint64(c&0x7f) << shift
	}
	return 0, at
}
