package main

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/users/imports"
)

const (
	// importBatch is the maximum size of a batch that the API accepts, in bytes.
	importBatch = 1 << 20
	// maxImportLine is the longest line that is sent unchanged, in bytes, with its end.
	maxImportLine = importBatch / 2
)

// standIn is sent instead of a line that is longer than maxImportLine. The stand-in is also too long for the API, which
// rejects it with the line's number.
var standIn = []byte(strings.Repeat("x", imports.MaxLine+1) + "\n")

// errWithinLine: the offset of the file's import is not the end of a line, as this command sends lines.
var errWithinLine = errors.New("this offset is within a line or after the end of the file: another program imported the file")

// batches reads whole lines, as many at once as a batch holds. The offset of an import counts sent bytes: for a
// replaced line, the bytes of its stand-in. The lines to replace depend only on the file, so an interrupted import
// continues at the right line.
type batches struct {
	reader *bufio.Reader
	// line was read and did not fit into the previous batch. The next read overwrites it.
	line  []byte
	ended bool
	// read counts the bytes of the file.
	read int64
}

func newBatches(from io.Reader) *batches {
	return &batches{reader: bufio.NewReaderSize(from, maxImportLine+1)}
}

// next returns the next lines, and reports whether they are the last. The last line of a file may have no line break.
func (b *batches) next() (batch []byte, last bool, err error) {
	batch = make([]byte, 0, importBatch)
	for lines := 0; ; {
		batch = append(batch, b.line...)
		if !imports.Empty(b.line) {
			lines++
		}
		b.line = nil
		if b.ended {
			return batch, true, nil
		}
		if err := b.readLine(); err != nil {
			return nil, false, err
		}
		full := lines == imports.MaxLines && !imports.Empty(b.line)
		if len(batch) > 0 && (full || len(batch)+len(b.line) > importBatch) {
			return batch, false, nil
		}
	}
}

// readLine reads the next line, or its stand-in.
func (b *batches) readLine() error {
	line, err := b.reader.ReadSlice('\n')
	b.read += int64(len(line))
	long := len(line) > maxImportLine
	for errors.Is(err, bufio.ErrBufferFull) {
		var part []byte
		part, err = b.reader.ReadSlice('\n')
		b.read += int64(len(part))
	}
	if b.line = line; long {
		b.line = standIn
	}
	b.ended = errors.Is(err, io.EOF)
	if b.ended {
		return nil
	}
	return err
}

// skip skips the lines that were already sent, and returns their number. sent is the offset of the import in bytes.
func (b *batches) skip(sent int64) (lines int64, err error) {
	for sent > 0 && !b.ended {
		if err := b.readLine(); err != nil {
			return lines, err
		}
		sent -= int64(len(b.line))
		lines++
	}
	b.line = nil
	if sent != 0 {
		return lines, errWithinLine
	}
	return lines, nil
}
