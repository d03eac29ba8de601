package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
	"github.com/cardea-iam/cardea/internal/pause"
)

const (
	// longestWait is the longest time in which the server holds an empty page back. Without any, the client would never
	// pause.
	longestWait, shortestWait = 30 * time.Second, time.Second
	// firstRetry and lastRetry bound the pause before a request that failed is sent again.
	firstRetry, lastRetry = time.Second, 15 * time.Second
)

func eventsTailCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var flags eventFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print events as they happen, until Ctrl-C",
		Long: "Print the events of the credential's deployment as they happen, a line each. After an interruption of the connection it continues where it was,\n" +
			"without gaps. At its end it prints the cursor with which --after continues. The credential needs the permission events:read.",
		Example: `  kubectl cardea events tail -n acme --use-key acme-backend-key
  kubectl cardea events tail --since 10m --types 'membership.*' -o json | jq .subject`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := flags.query(time.Now())
			if err != nil {
				return err
			}
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			t := &tail{server: server, around: around, format: format, wait: waitWithin(to.timeout)}
			return t.run(cmd.Context(), query)
		},
	}
	outputFlag(cmd, &format, formatText, formatJSON)
	flags.register(cmd, to, around, "", "; absent: now")
	return cmd
}

// waitWithin returns how long the server may hold an empty page back if a request may take the given time, 0 for any.
func waitWithin(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return longestWait
	}
	return max(min(longestWait, timeout*4/5).Truncate(time.Second), shortestWait)
}

// tail prints events until it is interrupted.
type tail struct {
	server *api
	around surroundings
	format string
	wait   time.Duration
	// cursor is the place after the last printed event.
	cursor string
	// retry is the pause before the next request, 0 after a request that succeeded.
	retry time.Duration
}

// run prints the events from the place of the query on.
func (t *tail) run(ctx context.Context, query url.Values) error {
	for {
		page, err := t.server.events(ctx, query)
		switch {
		case ctx.Err() != nil:
			return t.end()
		case err == nil:
			if err := t.print(page); err != nil {
				return err
			}
			// Only now is the place known, so that the first request does not wait.
			query.Set("wait", strconv.Itoa(int(t.wait.Seconds())))
			following(query, t.cursor)
		case t.cursor == "" || !passes(err):
			return errors.Join(err, t.end())
		default:
			if t.pauseAfter(ctx, err) != nil {
				return t.end()
			}
		}
	}
}

// print prints the events of a page.
func (t *tail) print(page backendapi.EventList) error {
	for _, e := range page.Data {
		line := fmt.Sprintf("%s  %-30s %s  by %s  %s", second(e.Timestamp), e.Type, party(e.Subject), party(e.Actor), e.Data)
		if t.format == formatJSON {
			text, err := json.Marshal(e)
			if err != nil {
				return err
			}
			line = terminal.CleanJSON(text)
		} else {
			line = terminal.Clean(line)
		}
		if _, err := fmt.Fprintln(t.around.out, line); err != nil {
			return err
		}
	}
	t.cursor, t.retry = page.NextCursor, 0
	return nil
}

// pauseAfter reports a failure that may pass, the first time, and pauses.
func (t *tail) pauseAfter(ctx context.Context, err error) error {
	if t.retry == 0 {
		fmt.Fprintf(t.around.err, "%s; trying again\n", terminal.Clean(err.Error()))
	}
	t.retry = min(max(2*t.retry, firstRetry), lastRetry)
	return pause.For(ctx, t.retry)
}

// end prints how to continue.
func (t *tail) end() error {
	if t.cursor == "" {
		return nil
	}
	_, err := io.WriteString(t.around.err, "--after "+terminal.Clean(t.cursor)+" continues here.\n")
	return err
}
