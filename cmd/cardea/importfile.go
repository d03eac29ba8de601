package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// progressEvery is the time between two progress messages of a file.
const progressEvery = 5 * time.Second

// errElsewhere: the offset of the file's import is not where this command's batches ended, so another command also
// imports the file.
var errElsewhere = errors.New("another command also imports this file")

// importer sends files of JSON Lines to the backend API.
type importer struct {
	*backend
	out, problems io.Writer
}

// importState is the progress of a file's import, as the API returns it.
type importState struct {
	Offset                      int64
	Imported, Present, Rejected int64
	CompletedAt                 *time.Time `json:"completed_at"`
	Rejections                  []struct {
		Line           int64
		Field, Message string
	}
}

// file imports one file and returns its counts.
func (i *importer) file(ctx context.Context, f importFile) (importState, error) {
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return importState{}, err
	}
	path := "/imports/" + hex.EncodeToString(sum.Sum(nil))
	state, err := i.state(ctx, path)
	if err == nil && state.CompletedAt != nil {
		_, err = fmt.Fprintf(i.out, "%s: already imported\n", f.name)
		return importState{}, err
	}
	for err == nil && state.CompletedAt == nil {
		// If another command imports the same file, continue after the progress of both.
		from := state.Offset
		if state, err = i.rest(ctx, f, path, size, state); errors.Is(err, errElsewhere) {
			if state, err = i.state(ctx, path); err == nil && state.Offset <= from && state.CompletedAt == nil {
				err = errElsewhere
			}
		}
	}
	if err != nil {
		return state, err
	}
	_, err = fmt.Fprintf(i.out, "%s: %d imported, %d present, %d rejected\n", f.name, state.Imported, state.Present, state.Rejected)
	return state, err
}

// rest sends the remainder of a file, until all is sent or another command sent a part of it.
func (i *importer) rest(ctx context.Context, f importFile, path string, size int64, state importState) (importState, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return state, err
	}
	batches, told := newBatches(f), time.Now()
	done, err := batches.skip(state.Offset)
	if err != nil {
		return state, fmt.Errorf("continue at byte %d: %w", state.Offset, err)
	}
	for state.CompletedAt == nil {
		batch, last, err := batches.next()
		if err != nil {
			return state, fmt.Errorf("line %d: %w", done+1, err)
		}
		query := fmt.Sprintf("/batches?offset=%d", state.Offset)
		if last {
			query += "&complete=true"
		}
		sent := state.Offset + int64(len(batch))
		if state, err = i.send(ctx, path, query, batch, state.Offset); err != nil {
			return state, err
		}
		for _, rejection := range state.Rejections {
			f.report(i.problems, done+rejection.Line, rejection.Field, rejection.Message)
		}
		if state.CompletedAt == nil && state.Offset != sent {
			return state, errElsewhere
		}
		done += int64(bytes.Count(batch, []byte{'\n'}))
		if time.Since(told) >= progressEvery {
			told = time.Now()
			_, _ = fmt.Fprintf(i.problems, "%s: %d of %d bytes; %d imported, %d present, %d rejected\n", f.name, batches.read, size, state.Imported, state.Present, state.Rejected)
		}
	}
	return state, nil
}

// state returns the progress of a file's import.
func (i *importer) state(ctx context.Context, path string) (state importState, err error) {
	err = i.retried(ctx, func() (int, error) {
		var status int
		var err error
		if state, status, err = ask[importState](ctx, i.backend, http.MethodGet, path, nil); status == http.StatusNotFound {
			err = nil
		}
		return status, err
	})
	return state, err
}

// send sends a batch. A batch without a response may have been imported; the progress of the file shows it.
func (i *importer) send(ctx context.Context, path, query string, batch []byte, offset int64) (state importState, err error) {
	sent := false
	err = i.retried(ctx, func() (int, error) {
		if sent {
			came, status, err := ask[importState](ctx, i.backend, http.MethodGet, path, nil)
			if err != nil && status != http.StatusNotFound {
				return status, err
			}
			if state = came; state.Offset > offset || state.CompletedAt != nil {
				return http.StatusOK, nil
			}
		}
		sent = true
		came, status, err := ask[importState](ctx, i.backend, http.MethodPost, path+query, batch)
		if state = came; status == http.StatusConflict {
			err = errElsewhere
		}
		return status, err
	})
	return state, err
}
