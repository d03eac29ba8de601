package exports

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxRecord is the longest record of an export, in bytes.
const maxRecord = 4 << 20

// errLongRecord ends the reading of a file, because the start of the next record cannot be found.
var errLongRecord = errors.New("has more than 4 MiB: is its end missing?")

// The reasons to leave out a record that cannot be read, if the next record can be read.
const (
	otherForm = "a whole user, because the record has another form than the system's exports"
	tooLong   = "a whole user, because the record has more than 4 MiB"
)

// bounded is a reader that fails when a record is too long.
type bounded struct {
	from io.Reader
	left int
}

// next starts another record.
func (b *bounded) next() { b.left = maxRecord }

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLongRecord
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// formed reports whether a JSON decoding with the error err produced a value of the expected form. It returns no error
// for a value of another form, because decoding can continue after it.
func formed(err error) (bool, error) {
	var otherType *json.UnmarshalTypeError
	if errors.As(err, &otherType) {
		return false, nil
	}
	return err == nil, err
}

// notJSON returns the error of a file without the decoder's text, which may contain part of the file.
func (l *Lines) notJSON(err error, what string) error {
	if errors.Is(err, errLongRecord) {
		return l.broken(errLongRecord)
	}
	return l.broken(errors.New(what))
}

// headOf returns the first bytes of a file, without blanks around them, and seeks its start.
func headOf(f File) ([]byte, error) {
	head := make([]byte, 64)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return bytes.TrimSpace(head[:n]), err
}

// jsonLines reads one JSON object per line. It calls leave with the reason for each record that it cannot read.
func jsonLines[T any](f File, to *Lines, leave func(string), each func(*T) error) error {
	to.at = Source{File: f.Name}
	lines := bufio.NewReaderSize(f, maxRecord)
	for {
		to.at.Record++
		text, err := lines.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return to.broken(err)
		}
		if text = bytes.TrimSpace(text); long {
			leave(tooLong)
		} else if len(text) > 0 {
			if err := jsonLine(text, to, leave, each); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

func jsonLine[T any](text []byte, to *Lines, leave func(string), each func(*T) error) error {
	var one T
	good, err := formed(json.Unmarshal(text, &one))
	switch {
	case err != nil:
		return to.notJSON(err, "is not the JSON of a user")
	case !good:
		leave(otherForm)
		return nil
	}
	return each(&one)
}

// users reads the list "users" of a JSON object, one user at a time.
func users[T any](f File, to *Lines, each func(*T) error) error {
	to.at = Source{File: f.Name}
	input := &bounded{from: f, left: maxRecord}
	dec := json.NewDecoder(input)
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return to.broken(errors.New("is not a JSON object"))
	}
	for input.next(); dec.More(); input.next() {
		name, err := dec.Token()
		if err != nil {
			return to.notJSON(err, "is not JSON")
		}
		if name != "users" {
			if err := skip(dec, input); err != nil {
				return to.notJSON(err, "is not JSON")
			}
			continue
		}
		if token, err := dec.Token(); err != nil || token != json.Delim('[') {
			return to.broken(errors.New("its users are not a list"))
		}
		for input.next(); dec.More(); input.next() {
			to.at.Record++
			var one T
			good, err := formed(dec.Decode(&one))
			switch {
			case err != nil:
				return to.notJSON(err, "is not the JSON of a user")
			case !good:
				to.leave(otherForm)
			default:
				err = each(&one)
			}
			if err != nil {
				return err
			}
		}
		if _, err := dec.Token(); err != nil {
			return to.notJSON(err, "is not JSON")
		}
	}
	return nil
}

// skip skips a value of any length.
func skip(dec *json.Decoder, input *bounded) error {
	for depth := 0; ; {
		input.next()
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
