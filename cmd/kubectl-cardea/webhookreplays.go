package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// replayFlags select the events of a replay.
type replayFlags struct {
	failed, all                  bool
	since, until, eventType, key string
	events, deliveries           []string
}

func (f *replayFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.failed, "failed", false, "the deliveries that failed, of the time from --since to --until")
	flags.BoolVar(&f.all, "all", false, "all events of the time from --since to --until that the endpoint selects")
	flags.StringSliceVar(&f.events, "event", nil, "the event with this id, such as evt_420634165248007002; may be repeated, or have several separated by commas")
	flags.StringSliceVar(&f.deliveries, "delivery", nil, "the delivery with this id; may be repeated, or have several separated by commas")
	flags.StringVar(&f.since, "since", "", "begin of the time, RFC 3339, or so long ago, such as 24h; required with --failed and --all")
	flags.StringVar(&f.until, "until", "", "end of the time, exclusive, RFC 3339, or so long ago; absent: now")
	flags.StringVar(&f.eventType, "type", "", "only events of this type, such as user.created, with --failed or --all")
	flags.StringVar(&f.key, "idempotency-key", "", "key of this request: the same request with it returns the same replay, and begins no other")
	cmd.MarkFlagsMutuallyExclusive("failed", "all", "event", "delivery")
	_ = cmd.RegisterFlagCompletionFunc("event", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("delivery", cobra.NoFileCompletions)
}

// body returns the body of the request.
func (f *replayFlags) body(now time.Time) (body backendapi.WebhookReplayCreate, err error) {
	if f.key != "" {
		body.IdempotencyKey = &f.key
	}
	if !f.failed && !f.all {
		if f.since != "" || f.until != "" || f.eventType != "" {
			return body, usagef("--since, --until and --type select events only with --failed or --all")
		}
		if len(f.events) > 0 {
			body.EventIds = &f.events
		} else if len(f.deliveries) > 0 {
			body.DeliveryIds = &f.deliveries
		} else {
			return body, usagef("set --failed or --all, or --event or --delivery with ids")
		}
		return body, nil
	}
	if f.since == "" {
		return body, usagef("--failed and --all need --since: the begin of the time, such as 2026-05-01T00:00:00Z or 24h")
	}
	if body.StartDate, err = f.time(now, "--since", f.since); err != nil {
		return body, err
	}
	if body.EndDate, err = f.time(now, "--until", f.until); err != nil {
		return body, err
	}
	status := backendapi.WebhookReplayCreateFailed
	if f.all {
		status = backendapi.WebhookReplayCreateAll
	}
	if body.Status = &status; f.eventType != "" {
		body.EventName = &f.eventType
	}
	return body, nil
}

// time parses the value of a flag, nil for none. With an idempotency key, a time is required, because "24h ago" is
// another one in each request.
func (f *replayFlags) time(now time.Time, flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := parseTime(now, flag, text)
	if err != nil {
		return nil, err
	}
	if _, notTime := time.Parse(time.RFC3339, text); f.key != "" && notTime != nil {
		return nil, usagef("with --idempotency-key, %s must be a time such as 2026-05-01T00:00:00Z: %q is another time in each request", flag, text)
	}
	at = at.UTC()
	return &at, nil
}

func replayCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var wait bool
	var flags replayFlags
	var body backendapi.WebhookReplayCreate
	cmd := &cobra.Command{
		Use:   "replay ENDPOINT",
		Short: "Send events to an endpoint again: failed deliveries, all events of a time, or some by their ids",
		Long: "Send events to an endpoint again: the deliveries of a time that failed (--failed), all events of a time (--all), or events or deliveries by their\n" +
			"ids. Events keep their ids, so that the receiver can recognize them. An endpoint has one replay at a time.\n" +
			"With --wait, it shows how the replay goes, and ends with it: exit code 1 means that deliveries failed, or that the replay was cancelled.\n" +
			"The credential needs the permission webhooks:write, and webhooks:read for a name and for --wait.",
		Example: `  kubectl cardea webhooks replay crm --failed --since 24h --wait -n acme --use-key acme-backend-key
  kubectl cardea webhooks replay crm --all --since 2026-05-01T00:00:00Z --until 2026-05-02T00:00:00Z --type user.created --idempotency-key restore-4711
  kubectl cardea webhooks replay crm --event evt_420634165248007002,evt_420634165248007003`,
		PreRunE: func(*cobra.Command, []string) (err error) { body, err = flags.body(time.Now()); return err },
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	flags.register(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "show how the replay goes, until it ends")
	return endpointCommand(to, around, 1, cmd, func(cmd *cobra.Command, server *api, endpoint backendapi.WebhookEndpoint, _ []string) error {
		var begun backendapi.WebhookReplayStarted
		if err := server.post(cmd.Context(), endpointPath(endpoint, "replay"), body, &begun); err != nil {
			return err
		}
		if !wait {
			return around.print(format, begun, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "Replay %s of %s: %s. kubectl cardea webhooks replays shows how it goes.\n", terminal.Clean(begun.TaskId), endpointName(endpoint), terminal.Clean(begun.Message))
				return err
			})
		}
		_, _ = fmt.Fprintf(around.err, "Replay %s of %s: %s.\n", terminal.Clean(begun.TaskId), endpointName(endpoint), terminal.Clean(begun.Message))
		done, err := (&replayWait{server: server, around: around, endpoint: endpoint, task: begun.TaskId}).run(cmd.Context())
		if err != nil {
			return err
		}
		err = around.print(format, done, func(w io.Writer) error { return writeReplays(w, []backendapi.WebhookReplay{done}) })
		if err == nil && (done.FailedCount > 0 || done.Status == backendapi.WebhookReplayCancelled) {
			err = &faultFound{}
		}
		return err
	})
}

// replays reads the replays of an endpoint. The server keeps no more than a page of them.
func (a *api) replays(ctx context.Context, endpoint backendapi.WebhookEndpoint) (list backendapi.WebhookReplayList, err error) {
	return list, a.get(ctx, endpointPath(endpoint, "replays"), url.Values{"limit": {strconv.Itoa(webhookPage)}}, &list)
}

func replaysCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "replays ENDPOINT",
		Short:   "List the last replays of an endpoint, the newest first, with how they go",
		Long:    "List the last 100 replays of an endpoint, the newest first, with how they go. The credential needs the permission webhooks:read.",
		Example: `  kubectl cardea webhooks replays crm -n acme --use-key acme-backend-key`,
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	return endpointCommand(to, around, 1, cmd, func(cmd *cobra.Command, server *api, endpoint backendapi.WebhookEndpoint, _ []string) error {
		list, err := server.replays(cmd.Context(), endpoint)
		if err != nil {
			return err
		}
		return around.print(format, list, func(w io.Writer) error { return writeReplays(w, list.Data) })
	})
}

func writeReplays(w io.Writer, replays []backendapi.WebhookReplay) error {
	rows := make([][]string, len(replays))
	for i, r := range replays {
		rows[i] = []string{r.TaskId, string(r.Status)}
		for _, n := range []int64{r.TotalCount, r.Processed, r.ReplayedCount, r.FailedCount} {
			rows[i] = append(rows[i], strconv.FormatInt(n, 10))
		}
		rows[i] = append(rows[i], day(r.CreatedAt), dayOrNone(r.CompletedAt))
	}
	return terminal.Table(w, []string{"TASK", "STATUS", "SELECTED", "PROCESSED", "DELIVERED", "FAILED", "CREATED (UTC)", "ENDED (UTC)"}, rows)
}

func cancelReplayCommand(to *connection, around surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ENDPOINT TASK",
		Short: "End a replay: its deliveries that have not ended are skipped",
		Long: "End a replay: its deliveries that have not ended are skipped, and requests that are open go on. A replay that has ended stays as it is.\n" +
			"The credential needs the permission webhooks:write, and webhooks:read for a name.",
		Example: `  kubectl cardea webhooks cancel crm 420637940121600021 -n acme --use-key acme-backend-key`,
	}
	return endpointCommand(to, around, 2, cmd, func(cmd *cobra.Command, server *api, endpoint backendapi.WebhookEndpoint, rest []string) error {
		if !isID(rest[0]) {
			return usagef("TASK must be the id of a replay, which webhooks replays ENDPOINT shows, not %q", rest[0])
		}
		if err := server.send(cmd.Context(), http.MethodDelete, endpointPath(endpoint, "replays/"+url.PathEscape(rest[0])), nil, nil, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(around.out, "Replay %s of %s has ended.\n", rest[0], endpointName(endpoint))
		return err
	})
}
