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
	// auditSettled is how old a record is before it is exported: what was decided at a time is written by then, so that nothing comes
	// between two records that an export passed. The backend API applies the same by its own clock.
	auditSettled = time.Minute
	// auditPage is how many records are asked for at once.
	auditPage = "100"
)

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Read what the audit has", Args: cobra.NoArgs}
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
		Short: "Write audit records as JSON Lines, the oldest first",
		Long: "Export asks the backend API, as the key in CARDEA_API_KEY or --api-key-file may (audit:read), for the audit of the key's deployment, and writes a record a line, " +
			"the oldest first, to standard output or, with --file, to the end of a file.\n\n" +
			"A file is gone on with: records that it has are not written again, and a line that an export did not finish is written anew. Give it the same filters each time. " +
			"Records of the last minute are left for the next time, for older ones may yet come. A --since within that minute exports nothing yet: to a file, which the next export " +
			"with the same --since goes on with, that is no fault; to standard output, where nobody would come back for those records, it is refused.\n\n" +
			"It ends with 0, and with 2 if it could not run to its end; what was written until then is whole.",
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
	flags.StringVar(&o.file, "file", "", "file that records are appended to; absent: standard output")
	flags.StringVar(&o.since, "since", "", "only what was done at this time or later, such as 2026-05-10T12:00:00Z")
	flags.StringVar(&o.until, "until", "", "only what was done before this time; absent or later: a minute ago")
	flags.StringVar(&o.actor, "actor", "", "only what this actor did, such as key:ck_4fzd9q")
	flags.StringVar(&o.action, "action", "", "only this action, such as user.deleted")
	flags.StringVar(&o.object, "object", "", "only what was done to this object, such as user:92637214")
	flags.StringVar(&o.keyID, "key-id", "", "only what this API key did and what was done to it, by its public id, as decisions name it, or its id")
	return cmd
}

// run exports what there is until now.
func (o *auditExport) run(ctx context.Context, stdout, problems io.Writer, now time.Time) (err error) {
	api, err := o.open("audit:read")
	if err != nil {
		return err
	}
	settled := now.Add(-auditSettled).UTC()
	early := o.since != "" && !before(o.since, settled)
	if o.until == "" || !before(o.until, settled) {
		o.until = settled.Format(time.RFC3339Nano)
	}
	if early && o.file == "" {
		return fmt.Errorf("--since %s is less than a minute ago or still to come, and records of the last minute are not exported yet, for older ones may yet come: "+
			"give an earlier --since, or --file with the same --since each time, which leaves none out", o.since)
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
		_, err = fmt.Fprintf(problems, "0 records exported: --since %s is less than a minute ago or still to come; the file goes on with the next export\n", o.since)
		return err
	}
	written, err := o.export(ctx, api, out, last)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(problems, "%d records exported\n", written)
	return err
}

// before reports whether a flag's time is before another. A text that is no time passes, because the backend API refuses it by the flag's name.
func before(flag string, other time.Time) bool {
	at, err := time.Parse(time.RFC3339Nano, flag)
	return err != nil || at.Before(other)
}

// export writes the records that come after a place.
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
			return written, errors.New("the backend API does not get on: it asks for the same page again")
		default:
			query.Set("cursor", *next)
		}
	}
}

// auditPageOf is a page of the answer. Records are written as they came, so that those of a newer server lose nothing.
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
			return page, fmt.Errorf("the backend API answers with what is no audit record: %s", text.Printable(err.Error()))
		}
	}
	return page, nil
}
