package management

import "strconv"

// listing collects a page of objects as JSON.
type listing struct {
	limit, offset int
	// whole counts what follows the page as well.
	whole bool

	seen, listed int
	items        []byte
}

// add takes the next object, and tells whether more are wanted.
func (l *listing) add(render func([]byte) []byte) bool {
	l.seen++
	if l.seen <= l.offset || l.listed >= l.limit {
		return l.whole || l.listed < l.limit
	}
	if l.listed > 0 {
		l.items = append(l.items, ',')
	}
	l.items = render(l.items)
	l.listed++
	return l.whole || l.listed < l.limit
}

// offsetAnswer is the list of those that page by limit and offset.
func (l *listing) offsetAnswer(total int) []byte {
	out := make([]byte, 0, len(l.items)+128)
	out = append(append(append(out, `{"data":[`...), l.items...), `],"has_more":`...)
	out = strconv.AppendBool(out, l.offset+l.listed < total)
	out = strconv.AppendInt(append(out, `,"limit":`...), int64(l.limit), 10)
	out = strconv.AppendInt(append(out, `,"offset":`...), int64(l.offset), 10)
	return append(strconv.AppendInt(append(out, `,"total":`...), int64(total), 10), '}')
}
