package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/apiserver/users/imports"
	"github.com/cardea-iam/cardea/apiserver/users/imports/exports"
	"github.com/cardea-iam/cardea/internal/text"
)

// importFile is a file of lines.
type importFile struct {
	name string
	*os.File
	// source returns the origin of a line, for a file that was converted from exports.
	source func(line int64) exports.Source
}

// at returns the position of a line for messages, numbered from 1.
func (f importFile) at(line int64) string {
	if f.source != nil {
		if source := f.source(line); source.File != "" {
			return fmt.Sprintf("%s:%d", source.File, source.Record)
		}
	}
	return fmt.Sprintf("%s:%d", f.name, line)
}

// report writes the fault of a line.
func (f importFile) report(problems io.Writer, line int64, member, reason string) {
	if member != "" {
		member += ": "
	}
	_, _ = fmt.Fprintln(problems, text.Printable(fmt.Sprintf("%s: %s%s", f.at(line), member, reason)))
}

// openImports opens the files, or converts them to lines in a temporary file. done closes all files, also after an
// error.
func openImports(cmd *cobra.Command, from string, options exports.Options, names []string) (files []importFile, done func(), err error) {
	done = func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return files, done, err
		}
		files = append(files, importFile{name: name, File: f})
	}
	if from == "" {
		return files, done, nil
	}
	made, err := convertExports(cmd, from, options, files)
	if err != nil {
		return files, done, err
	}
	done()
	files = []importFile{made}
	return files, done, nil
}

// convertExports converts exports to lines, in a temporary file that is already unlinked, so that no other process can
// open it.
func convertExports(cmd *cobra.Command, from string, options exports.Options, files []importFile) (importFile, error) {
	out, err := os.CreateTemp("", "cardea-import-*.jsonl")
	if err != nil {
		return importFile{}, err
	}
	if err := os.Remove(out.Name()); err != nil {
		_ = out.Close()
		return importFile{}, err
	}
	inputs := make([]exports.File, len(files))
	for i, f := range files {
		inputs[i] = exports.File{Name: f.name, ReadSeeker: f.File}
	}
	lines := exports.NewLines(out)
	if err := exports.Convert(from, inputs, options, lines); err != nil {
		_ = out.Close()
		return importFile{}, err
	}
	for _, left := range lines.LeftOut() {
		where := left.First.File
		if left.First.Record > 0 {
			where = fmt.Sprintf("%s:%d", left.First.File, left.First.Record)
		}
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), text.Printable(fmt.Sprintf("%s: left out: %s (%d users; this is the first)", where, left.What, left.Users)))
	}
	_, err = out.Seek(0, io.SeekStart)
	return importFile{name: files[0].name, File: out, source: lines.Source}, err
}

// dryRun is the taker that checks lines and sends nothing. Lines may refer to lines of earlier files.
func dryRun(cmd *cobra.Command) taker {
	checker, now := imports.NewDry(), time.Now()
	return func(ctx context.Context, file importFile) (bool, error) {
		batches := newBatches(file.File)
		good, rejected, done := 0, 0, int64(0)
		for ctx.Err() == nil {
			batch, last, err := batches.next()
			if err != nil {
				return false, fmt.Errorf("line %d: %w", done+1, err)
			}
			lines := imports.ReadAll(batch, now)
			for i := range lines {
				checker.Check(&lines[i])
				if lines[i].Refused == nil {
					good++
					continue
				}
				rejected++
				for _, fault := range lines[i].Faults() {
					file.report(cmd.ErrOrStderr(), done+lines[i].Number, fault[0], fault[1])
				}
			}
			done += int64(bytes.Count(batch, []byte{'\n'}))
			if last {
				break
			}
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %d good, %d rejected; nothing was sent\n", file.name, good, rejected)
		if err == nil {
			err = ctx.Err()
		}
		return rejected > 0, err
	}
}
