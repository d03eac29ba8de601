package backend

import (
	"strconv"
	"sync"
)

// buffers are reused by lists: a response has tens of kilobytes, and a new buffer for each would burden the garbage
// collector.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer, in bytes, that is kept for the next list.
const maxPooled = 1 << 20

// listing writes a page of objects as JSON, front to back in one buffer.
type listing struct {
	limit, offset int
	// whole also counts the objects after the page.
	whole bool

	seen, listed int
	out          *[]byte
}

// begin starts the response with the members before the objects.
func (l *listing) begin(head string) {
	l.out = buffers.Get().(*[]byte)
	*l.out = append((*l.out)[:0], head...)
}

// integer appends a member that is an integer.
func (l *listing) integer(member string, n int64) {
	*l.out = strconv.AppendInt(append(*l.out, member...), n, 10)
}

// add takes the next object, and reports whether more are wanted.
func (l *listing) add(render func([]byte) []byte) bool {
	l.seen++
	if l.seen <= l.offset || l.listed >= l.limit {
		return l.whole || l.listed < l.limit
	}
	if l.listed > 0 {
		*l.out = append(*l.out, ',')
	}
	*l.out = render(*l.out)
	l.listed++
	return l.whole || l.listed < l.limit
}

// more appends whether objects follow the page.
func (l *listing) more(total int) {
	*l.out = strconv.AppendBool(append(*l.out, `],"has_more":`...), l.offset+l.listed < total)
}

// end replies with the page and the members after the objects. The buffer returns to its pool after the response is
// sent.
func (l *listing) end(tail string) reply {
	*l.out = append(*l.out, tail...)
	answer := raw(*l.out)
	answer.pooled = l.out
	return answer
}

// endByOffset ends a list that pages by limit and offset.
func (l *listing) endByOffset(total int) reply {
	l.more(total)
	l.integer(`,"limit":`, int64(l.limit))
	l.integer(`,"offset":`, int64(l.offset))
	l.integer(`,"total":`, int64(total))
	return l.end("}")
}
