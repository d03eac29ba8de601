package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// deliveriesMost is how many deliveries `webhooks deliveries` lists at most.
const deliveriesMost = 10_000

// deliveryStatuses are the values of --status.
var deliveryStatuses = []string{
	string(backendapi.WebhookDeliveryPending), string(backendapi.WebhookDeliveryDelivered), string(backendapi.WebhookDeliveryFailed), string(backendapi.WebhookDeliverySkipped),
}

// deliveryFlags select deliveries.
type deliveryFlags struct {
	status, eventType, since, until, cursor string
	limit                                   int
}

func (f *deliveryFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.status, "status", "", "only deliveries with this status: "+strings.Join(deliveryStatuses, ", "))
	flags.StringVar(&f.eventType, "type", "", "only deliveries of events of this type, such as user.created")
	flags.StringVar(&f.since, "since", "", "only deliveries that began at this time or later, RFC 3339, or so long ago, such as 90m")
	flags.StringVar(&f.until, "until", "", "only deliveries that began before this time, RFC 3339, or so long ago")
	flags.StringVar(&f.cursor, "cursor", "", "where to continue: the cursor that an earlier command printed")
	flags.IntVar(&f.limit, "limit", 50, fmt.Sprintf("how many to list, 1 to %d", deliveriesMost))
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(deliveryStatuses, cobra.ShellCompDirectiveNoFileComp))
}

// query returns the parameters of the first request.
func (f *deliveryFlags) query(now time.Time) (url.Values, error) {
	if f.limit < 1 || f.limit > deliveriesMost {
		return nil, usagef("--limit must be 1 to %d", deliveriesMost)
	}
	query := url.Values{}
	if f.status != "" {
		if !backendapi.WebhookDeliveryStatus(f.status).Valid() {
			return nil, usagef("--status must be one of %s, not %q", strings.Join(deliveryStatuses, ", "), f.status)
		}
		query.Set("status", f.status)
	}
	if f.eventType != "" {
		query.Set("event_name", f.eventType)
	}
	for flag, text := range map[string]string{"since": f.since, "until": f.until} {
		if text == "" {
			continue
		}
		at, err := parseTime(now, "--"+flag, text)
		if err != nil {
			return nil, err
		}
		query.Set(flag, at.UTC().Format(time.RFC3339Nano))
	}
	if f.cursor != "" {
		query.Set("cursor", f.cursor)
	}
	return query, nil
}

func deliveriesCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var flags deliveryFlags
	var query url.Values
	cmd := &cobra.Command{
		Use:   "deliveries ENDPOINT",
		Short: "List the deliveries of an endpoint, the newest first",
		Long: "List the deliveries of an endpoint, the newest first. A delivery is the sending of one event, with all its requests. `webhooks delivery ID`\n" +
			"shows the requests. The credential needs the permission webhooks:read.",
		Example: `  kubectl cardea webhooks deliveries crm --status failed --since 24h -n acme --use-key acme-backend-key`,
		PreRunE: func(*cobra.Command, []string) (err error) { query, err = flags.query(time.Now()); return err },
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	flags.register(cmd)
	return endpointCommand(to, around, 1, cmd, func(cmd *cobra.Command, server *api, endpoint backendapi.WebhookEndpoint, _ []string) error {
		list, err := server.deliveries(cmd.Context(), endpoint, query, flags.limit)
		if err != nil {
			return err
		}
		return around.print(format, list, func(w io.Writer) error { return writeDeliveries(w, list) })
	})
}

// deliveries reads pages until it has as many deliveries as the limit, or until there are no more. A page may be empty
// although there are more.
func (a *api) deliveries(ctx context.Context, endpoint backendapi.WebhookEndpoint, query url.Values, limit int) (backendapi.WebhookDeliveryList, error) {
	list := backendapi.WebhookDeliveryList{Data: []backendapi.WebhookDelivery{}, HasMore: true}
	for list.HasMore && len(list.Data) < limit {
		query.Set("limit", strconv.Itoa(min(webhookPage, limit-len(list.Data))))
		var page backendapi.WebhookDeliveryList
		if err := a.get(ctx, endpointPath(endpoint, "deliveries"), query, &page); err != nil {
			return list, err
		}
		list.Data, list.HasMore, list.NextCursor = append(list.Data, page.Data...), page.HasMore && page.NextCursor != nil, page.NextCursor
		query.Set("cursor", ptr.Deref(page.NextCursor, ""))
	}
	return list, nil
}

// counted formats a number with its noun.
func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// numberOr formats a number that may be absent.
func numberOr(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

func writeDeliveries(w io.Writer, list backendapi.WebhookDeliveryList) error {
	rows := make([][]string, len(list.Data))
	for i, d := range list.Data {
		next := "-"
		if d.NextAttemptAt != nil {
			next = second(*d.NextAttemptAt)
		}
		rows[i] = []string{
			d.DeliveryId, second(d.Timestamp), d.Sequence, d.EventName, d.EventId, string(d.Status), numberOr(d.HttpStatusCode), fmt.Sprintf("%d/%d", d.AttemptNumber, d.MaxAttempts), next,
			ptr.Deref(d.ReplayTaskId, "-"),
		}
	}
	head := []string{"ID", "BEGAN (UTC)", "SEQUENCE", "TYPE", "EVENT", "STATUS", "HTTP", "REQUESTS", "NEXT (UTC)", "REPLAY"}
	if err := terminal.Table(w, head, rows); err != nil {
		return err
	}
	end := counted(len(list.Data), "delivery", "deliveries")
	if list.HasMore {
		end += "; --cursor " + terminal.Clean(ptr.Deref(list.NextCursor, "")) + " shows the next"
	}
	_, err := fmt.Fprintln(w, end+".")
	return err
}

func deliveryCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "delivery ID",
		Short: "Show a delivery with its requests and its event",
		Long: "Show a delivery with its requests, the first one and the last 11, and its event, without personal data.\n" +
			"The credential needs the permission webhooks:read.",
		Example:           `  kubectl cardea webhooks delivery 420634165248000011 -n acme --use-key acme-backend-key`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !isID(args[0]) {
				return usagef("ID must be the id of a delivery, which webhooks deliveries ENDPOINT shows, not %q", args[0])
			}
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			var d backendapi.WebhookDeliveryDetail
			if err := server.get(cmd.Context(), "webhooks/deliveries/"+url.PathEscape(args[0]), nil, &d); err != nil {
				return err
			}
			return around.print(format, d, func(w io.Writer) error { return writeDelivery(w, d) })
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	return cmd
}

func writeDelivery(w io.Writer, d backendapi.WebhookDeliveryDetail) error {
	next := "none"
	if d.NextAttemptAt != nil {
		next = second(*d.NextAttemptAt) + " UTC"
	}
	for _, line := range [][2]string{
		{"delivery", d.DeliveryId}, {"endpoint", d.EndpointId}, {"event", fmt.Sprintf("%s  %s, number %s", d.EventId, d.EventName, d.Sequence)},
		{"replay", ptr.Deref(d.ReplayTaskId, "none")}, {"began", second(d.Timestamp) + " UTC"},
		{"status", fmt.Sprintf("%s, %d of at most %d requests", d.Status, d.AttemptNumber, d.MaxAttempts)}, {"next request", next},
	} {
		if _, err := fmt.Fprintf(w, "%-13s %s\n", line[0], terminal.Clean(line[1])); err != nil {
			return err
		}
	}
	if len(d.Attempts) > 0 {
		rows := make([][]string, len(d.Attempts))
		for i, a := range d.Attempts {
			rows[i] = []string{second(a.At), numberOr(a.HttpStatusCode), strconv.FormatInt(a.ResponseTimeMs, 10), cmp.Or(a.Error, "-"), a.ResponseExcerpt}
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := terminal.Table(w, []string{"REQUEST (UTC)", "HTTP", "MS", "ERROR", "RESPONSE"}, rows); err != nil {
			return err
		}
	}
	event := "The event was deleted because of its age."
	if d.Payload != nil {
		text, err := json.MarshalIndent(d.Payload, "", "  ")
		if err != nil {
			return err
		}
		event = terminal.CleanJSON(text)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", event)
	return err
}
