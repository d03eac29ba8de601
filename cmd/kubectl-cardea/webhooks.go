package main

import (
	"cmp"
	"context"
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

// webhookPage is how many endpoints, deliveries or replays one request asks for.
const webhookPage = 100

func webhooksCommand(to *connection, around surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Show webhook endpoints and their deliveries, test them, and send events again",
		Long: "Show the WebhookEndpoints of the credential's deployment and their deliveries, test them, and send events again.\n\n" +
			"ENDPOINT is the id of an endpoint, or its name: spec.displayName, or if that is absent, the name of the resource.",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		endpointsCommand(to, around), deliveriesCommand(to, around), deliveryCommand(to, around), replayCommand(to, around), replaysCommand(to, around),
		cancelReplayCommand(to, around), testWebhookCommand(to, around), reactivateCommand(to, around),
	)
	return cmd
}

// endpointPath returns a path below an endpoint.
func endpointPath(e backendapi.WebhookEndpoint, below string) string {
	return "webhooks/endpoints/" + url.PathEscape(e.Id) + "/" + below
}

// endpointName returns the name of an endpoint for the output, or the id if only that is known.
func endpointName(e backendapi.WebhookEndpoint) string { return terminal.Clean(cmp.Or(e.Name, e.Id)) }

// endpoints reads all endpoints of the deployment.
func (a *api) endpoints(ctx context.Context) (backendapi.WebhookEndpointList, error) {
	list := backendapi.WebhookEndpointList{Data: []backendapi.WebhookEndpoint{}, HasMore: true}
	for list.HasMore {
		var page backendapi.WebhookEndpointList
		query := url.Values{"limit": {strconv.Itoa(webhookPage)}, "offset": {strconv.Itoa(len(list.Data))}}
		if err := a.get(ctx, "webhooks/endpoints", query, &page); err != nil {
			return list, err
		}
		list.Data, list.HasMore, list.Total = append(list.Data, page.Data...), page.HasMore && len(page.Data) > 0, page.Total
	}
	list.Limit = int64(len(list.Data))
	return list, nil
}

// isID reports whether an argument is an id.
func isID(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

// findEndpoint returns the endpoint that an argument names: an id, of which it does not know the name, or the name of
// only one endpoint.
func (a *api) findEndpoint(ctx context.Context, named string) (backendapi.WebhookEndpoint, error) {
	if isID(named) {
		return backendapi.WebhookEndpoint{Id: named}, nil
	}
	list, err := a.endpoints(ctx)
	if err != nil {
		return backendapi.WebhookEndpoint{}, err
	}
	var found []backendapi.WebhookEndpoint
	for _, e := range list.Data {
		if e.Name == named {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return backendapi.WebhookEndpoint{}, fmt.Errorf("no webhook endpoint of the deployment has the name %s: kubectl cardea webhooks list shows the names and ids", named)
	case 1:
		return found[0], nil
	}
	var candidates []string
	for _, e := range found {
		candidates = append(candidates, e.Id+" ("+e.Url+")")
	}
	return backendapi.WebhookEndpoint{}, usagef("%d webhook endpoints have the name %s: use the id instead: %s", len(found), named, strings.Join(candidates, ", "))
}

// endpointCommand completes a command whose first argument is an endpoint, and that has as many arguments in all.
func endpointCommand(to *connection, around surroundings, arguments int, cmd *cobra.Command, do func(*cobra.Command, *api, backendapi.WebhookEndpoint, []string) error) *cobra.Command {
	var flags apiFlags
	cmd.Args = cobra.ExactArgs(arguments)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		server, err := flags.open(cmd.Context(), to, around)
		if err != nil {
			return err
		}
		endpoint, err := server.findEndpoint(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return do(cmd, server, endpoint, args[1:])
	}
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
		if len(args) < arguments {
			words = flags.completeEndpoint(cmd.Context(), to, around, args)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	if cmd.Flags().Lookup("type") != nil {
		_ = cmd.RegisterFlagCompletionFunc("type", func(cmd *cobra.Command, _ []string, _ string) (words []string, _ cobra.ShellCompDirective) {
			for _, entry := range flags.eventTypes(cmd.Context(), to, around) {
				words = append(words, entry.Type)
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		})
	}
	return cmd
}

// completeEndpoint completes an endpoint by its name, or by its id if the name does not select it alone. After an
// endpoint, it completes the replays that have not ended. Completion ignores all errors.
func (f *apiFlags) completeEndpoint(ctx context.Context, to *connection, around surroundings, args []string) (words []string) {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	server, err := f.open(ctx, to, around)
	if err != nil {
		return nil
	}
	if len(args) > 0 {
		endpoint, err := server.findEndpoint(ctx, args[0])
		if err != nil {
			return nil
		}
		list, _ := server.replays(ctx, endpoint)
		for _, r := range list.Data {
			if r.CompletedAt == nil {
				words = append(words, r.TaskId)
			}
		}
		return words
	}
	list, _ := server.endpoints(ctx)
	named := map[string]int{}
	for _, e := range list.Data {
		named[e.Name]++
	}
	for _, e := range list.Data {
		if named[e.Name] > 1 || isID(e.Name) || terminal.Clean(e.Name) != e.Name {
			words = append(words, cobra.CompletionWithDesc(e.Id, terminal.Clean(e.Name)))
		} else {
			words = append(words, cobra.CompletionWithDesc(e.Name, terminal.Clean(e.Url)))
		}
	}
	return words
}

func endpointsCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the webhook endpoints, with how far events were sent to them, and how that goes",
		Long: "List the webhook endpoints of the credential's deployment. POSITION is the number of the last event that was passed on for the endpoint, and that\n" +
			"of the deployment's last event. The credential needs the permission webhooks:read.",
		Example: `  kubectl cardea webhooks list -n acme --use-key acme-backend-key`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			list, err := server.endpoints(cmd.Context())
			if err != nil {
				return err
			}
			return around.print(format, list, func(w io.Writer) error { return writeEndpoints(w, list) })
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	return cmd
}

// stateOf returns the state of an endpoint for the output, and since when it has it, if that is known.
func stateOf(e backendapi.WebhookEndpoint) (state, since string) {
	switch {
	case e.State == backendapi.WebhookEndpointDisabled:
		return fmt.Sprintf("disabled (%s)", ptr.Deref(e.DisabledReason, "-")), dayOrNone(e.DisabledAt)
	case !e.IsActive:
		return "inactive", "-"
	case e.State == backendapi.WebhookEndpointFailing:
		return string(e.State), dayOrNone(e.FailingSince)
	}
	return string(e.State), "-"
}

func writeEndpoints(w io.Writer, list backendapi.WebhookEndpointList) error {
	rows := make([][]string, len(list.Data))
	for i, e := range list.Data {
		state, since := stateOf(e)
		rows[i] = []string{e.Name, e.Id, state, since, ptr.Deref(e.Position, "-") + "/" + e.LastSequence, dayOrNone(e.LastSuccessAt), e.Url}
	}
	return terminal.Table(w, []string{"NAME", "ID", "STATE", "SINCE (UTC)", "POSITION", "LAST SUCCESS (UTC)", "URL"}, rows)
}

// testTime is how long a test may take: the largest spec.timeoutSeconds, and the server's own time.
const testTime = time.Minute

func testWebhookCommand(to *connection, around surroundings) *cobra.Command {
	var format, eventType string
	cmd := &cobra.Command{
		Use:   "test ENDPOINT",
		Short: "Send the example of a type of events to an endpoint, and show the result",
		Long: "Send the example of a type of events to an endpoint once, signed, with the header Cardea-Test: true. It also works for an inactive or disabled\n" +
			"endpoint, and changes nothing about it. Exit code 1 means that the receiver did not accept it.\n" +
			"The credential needs the permission webhooks:write, and webhooks:read for a name.",
		Example: `  kubectl cardea webhooks test crm --type user.created -n acme --use-key acme-backend-key`,
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().StringVar(&eventType, "type", "", "type of the example, such as user.created")
	_ = cmd.MarkFlagRequired("type")
	return endpointCommand(to, around, 1, cmd, func(cmd *cobra.Command, server *api, endpoint backendapi.WebhookEndpoint, _ []string) error {
		if !cmd.Flags().Changed("request-timeout") {
			server.http.Timeout = testTime
		}
		var done backendapi.WebhookTest
		if err := server.post(cmd.Context(), endpointPath(endpoint, "test"), backendapi.WebhookTestCreate{EventName: eventType}, &done); err != nil {
			return err
		}
		err := around.print(format, done, func(w io.Writer) error {
			said := map[bool]string{true: "accepted", false: "did not accept"}[done.Success]
			result := fmt.Sprintf("%d ms", done.ResponseTimeMs)
			if done.StatusCode != nil {
				result = fmt.Sprintf("status %d, %s", *done.StatusCode, result)
			}
			if done.Error != nil {
				result += ": " + *done.Error
			}
			_, err := fmt.Fprintf(w, "The receiver of %s %s the example of %s: %s\n", endpointName(endpoint), said, terminal.Clean(eventType), terminal.Clean(result))
			return err
		})
		if err == nil && !done.Success {
			err = &faultFound{}
		}
		return err
	})
}

func reactivateCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var skip bool
	cmd := &cobra.Command{
		Use:   "reactivate ENDPOINT",
		Short: "Enable an endpoint that was disabled because of failures",
		Long: "Enable an endpoint that was disabled because of failures. Correct its receiver first: without any success, the endpoint is disabled again after an\n" +
			"hour. It continues where it stopped, or with --skip-backlog with the next event. An endpoint that is not disabled stays as it is.\n" +
			"The credential needs the permission webhooks:write, and webhooks:read for a name.",
		Example: `  kubectl cardea webhooks reactivate crm -n acme --use-key acme-backend-key`,
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().BoolVar(&skip, "skip-backlog", false, "continue with the next event; events that wait, deliveries and a replay that have not ended are skipped")
	return endpointCommand(to, around, 1, cmd, func(cmd *cobra.Command, server *api, endpoint backendapi.WebhookEndpoint, _ []string) error {
		var now backendapi.WebhookEndpoint
		if err := server.post(cmd.Context(), endpointPath(endpoint, "reactivate"), backendapi.WebhookReactivate{SkipBacklog: &skip}, &now); err != nil {
			return err
		}
		return around.print(format, now, func(w io.Writer) error {
			inactive := ""
			if !now.IsActive {
				inactive = " Events are sent once spec.active is true."
			}
			_, err := fmt.Fprintf(w, "WebhookEndpoint %s is enabled, and continues after event %s of %s.%s\n", endpointName(now), terminal.Clean(ptr.Deref(now.Position, "-")),
				terminal.Clean(now.LastSequence), inactive)
			return err
		})
	})
}
