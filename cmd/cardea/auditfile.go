package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// recordBegins is the start of each record. Only an incomplete line with this start is cut off at the end of a file.
const recordBegins = `{"id":"`

// maxAuditLine is the maximum length of an existing file's last line, in bytes. The texts of a record have a few
// hundred bytes each.
const maxAuditLine = 1 << 20

// auditPlace is the position of a record in the audit: records of the same time are ordered by id.
type auditPlace struct {
	At time.Time
	ID int64
}

// cursor returns the place as a cursor of GET /audit.
func (p auditPlace) cursor() string {
	return strconv.FormatInt(p.At.UnixMicro(), 10) + "-" + strconv.FormatInt(p.ID, 10)
}

// placeOf returns the place of a record.
func placeOf(line []byte) (auditPlace, error) {
	var record struct {
		ID string
		At time.Time
	}
	if err := json.Unmarshal(line, &record); err != nil {
		return auditPlace{}, err
	}
	id, err := strconv.ParseInt(record.ID, 10, 64)
	if err != nil || record.At.IsZero() {
		return auditPlace{}, errors.New("it has no id or no time")
	}
	return auditPlace{record.At, id}, nil
}

// auditFile is a file of JSON Lines that one process at a time appends to.
type auditFile struct {
	*os.File
	// last is the place of the file's last record, zero for an empty file.
	last auditPlace
}

// openAuditFile opens or creates a file, to append after its last complete line. It cuts off an incomplete line at the
// end, which an interrupted export left.
func openAuditFile(name string) (file *auditFile, err error) {
	opened, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = opened.Close()
		}
	}()
	switch err := syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, fmt.Errorf("%s: another export writes this file: wait until it has ended, or use another file", name)
	case err != nil:
		return nil, fmt.Errorf("%s: lock it: %w", name, err)
	}
	size, err := opened.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	line, end, err := lastLine(opened, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	file = &auditFile{File: opened}
	if len(line) > 0 {
		if file.last, err = placeOf(line); err != nil {
			return nil, fmt.Errorf("%s: its last line is not an audit record, so the export cannot continue: use another file", name)
		}
	}
	if err := opened.Truncate(end); err != nil {
		return nil, err
	}
	_, err = opened.Seek(end, io.SeekStart)
	return file, err
}

// Close waits until all writes are on the disk.
func (f *auditFile) Close() error { return errors.Join(f.Sync(), f.File.Close()) }

// lastLine returns the last complete line of a file, nil if it has none, and the offset of its end.
func lastLine(file io.ReaderAt, size int64) (line []byte, end int64, err error) {
	begin := max(0, size-2*maxAuditLine)
	tail := make([]byte, size-begin)
	if _, err := file.ReadAt(tail, begin); err != nil && err != io.EOF {
		return nil, 0, err
	}
	last := bytes.LastIndexByte(tail, '\n')
	before := bytes.LastIndexByte(tail[:max(last, 0)], '\n')
	unfinished := string(tail[last+1:])
	if !strings.HasPrefix(unfinished, recordBegins) && !strings.HasPrefix(recordBegins, unfinished) || begin > 0 && before < 0 {
		return nil, 0, errors.New("it does not end like an export: use another file")
	}
	if last < 0 {
		return nil, 0, nil
	}
	return tail[before+1 : last], begin + int64(last) + 1, nil
}
