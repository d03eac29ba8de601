package exports

import "sort"

// sources stores the source of each line in little more than a byte per line: the distance to the record of the line
// before.
type sources struct {
	behind  []uint8
	anchors []anchor
	last    Source
}

// anchor is a line whose source is stored completely.
type anchor struct {
	line int
	Source
}

// maxSteps bounds the distance of a line from its anchor.
const maxSteps = 1024

// add appends the source of the next line.
func (s *sources) add(source Source) {
	line, behind := len(s.behind), source.Record-s.last.Record
	if n := len(s.anchors); n == 0 || s.last.File != source.File || behind < 0 || behind > 255 || line-s.anchors[n-1].line >= maxSteps {
		s.anchors, behind = append(s.anchors, anchor{line, source}), 0
	}
	s.behind, s.last = append(s.behind, uint8(behind)), source
}

// of returns the source of a line by its number from 1.
func (s *sources) of(number int64) Source {
	if number < 1 || number > int64(len(s.behind)) {
		return Source{}
	}
	line := int(number - 1)
	found := s.anchors[sort.Search(len(s.anchors), func(i int) bool { return s.anchors[i].line > line })-1]
	for _, behind := range s.behind[found.line+1 : line+1] {
		found.Record += int(behind)
	}
	return found.Source
}
