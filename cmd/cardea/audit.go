package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/internal/text"
)

const (
	// minAuditAge is the minimum age of an exported record. When a record has that age, all older records are written,
	// so no record can be added later between two exported ones. The backend API applies the same bound by its own
	// clock.
	minAuditAge = time.Minute
	// auditPage is how many records one request returns.
	auditPage = "100"
)

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Read audit records", Args: cobra.NoArgs}
	cmd.AddCommand(auditExportCommand())
	return cmd
}

// auditExport are the flags of audit export.
type auditExport struct {
	backendOptions
	file                  string
	since, until          string
	actor, action, object string
	keyID                 string
}

func auditExportCommand() *cobra.Command {
	var o auditExport
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write audit records as JSON Lines, oldest first",
		Long: "Export reads the audit of the key's deployment from the backend API, and writes one record a line, " +
			"oldest first, to standard output or, with --file, to the end of a file. The key is in CARDEA_API_KEY or --api-key-file, and needs audit:read.\n\n" +
			"An export continues a file: existing records are not written again, and an incomplete last line is replaced. Use the same filters each time. " +
			"Records of the last minute are left for the next export, because older records can still be added. A --since within that minute exports nothing yet. " +
			"With --file that is not an error, because the next export with the same --since continues; without --file it is refused.\n\n" +
			"The exit code is 0, and 2 if it could not complete; the records that were written are complete.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), time.Now()); err != nil {
				return &exitError{2, err}
			}
			return nil
		},
	}
	endsWithTwo(cmd)
	o.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.file, "file", "", "file to which records are appended; absent: standard output")
	flags.StringVar(&o.since, "since", "", "only records at or after this time, such as 2026-05-10T12:00:00Z")
	flags.StringVar(&o.until, "until", "", "only records before this time; absent or later: a minute ago")
	flags.StringVar(&o.actor, "actor", "", "only records of this actor, such as key:ck_4fzd9q")
	flags.StringVar(&o.action, "action", "", "only records of this action, such as user.deleted")
	flags.StringVar(&o.object, "object", "", "only records of this object, such as user:92637214")
	flags.StringVar(&o.keyID, "key-id", "",
		"only records of what this API key did or of changes to it; its public id, as in decisions, or its id")
	return cmd
}

// run exports the records that are at least minAuditAge old, or those before --until if that is earlier.
func (o *auditExport) run(ctx context.Context, stdout, problems io.Writer, now time.Time) (err error) {
	api, err := o.open("audit:read")
	if err != nil {
		return err
	}
	newest := now.Add(-minAuditAge).UTC()
	early := o.since != "" && !before(o.since, newest)
	if o.until == "" || !before(o.until, newest) {
		o.until = newest.Format(time.RFC3339Nano)
	}
	if early && o.file == "" {
		return fmt.Errorf("--since %s is less than a minute ago or in the future, and records of the last minute are not exported yet, because older records can still be added: "+
			"use an earlier --since; or use --file with the same --since each time, so that no record is omitted", o.since)
	}
	out, last := stdout, auditPlace{}
	if o.file != "" {
		file, err := openAuditFile(o.file)
		if err != nil {
			return fmt.Errorf("--file: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out, last = file, file.last
	}
	if early {
		_, err = fmt.Fprintf(problems, "0 records exported: --since %s is less than a minute ago or in the future; the next export continues the file\n", o.since)
		return err
	}
	written, err := o.export(ctx, api, out, last)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(problems, "%d records exported\n", written)
	return err
}

// before reports whether a flag's time is before another. An invalid time passes, because the backend API refuses it
// with the flag's name.
func before(flag string, other time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, flag)
	return err != nil || at.Before(other)
}

// export writes the records after a place.
func (o *auditExport) export(ctx context.Context, api *backend, out io.Writer, last auditPlace) (written int, err error) {
	query := url.Values{"order": {"asc"}, "limit": {auditPage}, "until": {o.until}}
	for name, value := range map[string]string{"since": o.since, "actor": o.actor, "action": o.action, "object": o.object, "key_id": o.keyID} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if !last.At.IsZero() {
		query.Set("cursor", last.cursor())
	}
	for {
		page, err := auditRecords(ctx, api, query)
		if err != nil {
			return written, err
		}
		var lines bytes.Buffer
		for _, record := range page.Data {
			if err := json.Compact(&lines, record); err != nil {
				return written, err
			}
			lines.WriteByte('\n')
		}
		if _, err := out.Write(lines.Bytes()); err != nil {
			return written, err
		}
		written += len(page.Data)
		switch next := page.NextCursor; {
		case next == nil:
			return written, nil
		case *next == query.Get("cursor") || len(page.Data) == 0:
			return written, errors.New("the backend API makes no progress: it returned no new records")
		default:
			query.Set("cursor", *next)
		}
	}
}

// auditPageOf is a page of the response. Records are written unchanged, so that records of a newer server lose no
// members.
type auditPageOf struct {
	Data       []json.RawMessage
	NextCursor *string `json:"next_cursor"`
}

func auditRecords(ctx context.Context, api *backend, query url.Values) (page auditPageOf, err error) {
	err = api.retried(ctx, func() (status int, err error) {
		page, status, err = ask[auditPageOf](ctx, api, http.MethodGet, "/audit?"+query.Encode(), nil)
		return status, err
	})
	if err != nil {
		return page, err
	}
	for _, record := range page.Data {
		if _, err := placeOf(record); err != nil {
			return page, fmt.Errorf("the backend API returned an invalid audit record: %s", text.Printable(err.Error()))
		}
	}
	return page, nil
}
