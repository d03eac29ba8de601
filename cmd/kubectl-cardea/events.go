package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

const (
	// eventPage is how many events one request asks for, and eventsMost how many `events list` lists at most.
	eventPage, eventsMost = 100, 10_000
	// completionTime bounds the request for the types to complete.
	completionTime = 2 * time.Second
)

func eventsCommand(to *connection, around surroundings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show the events of a deployment: changes of users, organizations and memberships",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(eventsTailCommand(to, around), eventsListCommand(to, around), eventTypesCommand(to, around))
	return cmd
}

// eventFlags select events, the server and the credential.
type eventFlags struct {
	apiFlags
	types                               []string
	since, after, subject, organization string
	personal                            bool
}

func (f *eventFlags) register(cmd *cobra.Command, to *connection, around surroundings, since, absent string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.types, "types", nil, "types to show, such as user.created or user.*, separated by commas; absent: all")
	flags.StringVar(&f.since, "since", since, "begin at this time, RFC 3339, or so long ago, such as 90m"+absent)
	flags.StringVar(&f.after, "after", "", "begin after this cursor, which an earlier command printed, instead of --since")
	flags.StringVar(&f.subject, "subject", "", "only events of this entity, such as user/456230741233932971, or of this kind, such as user")
	flags.StringVar(&f.organization, "organization", "", "only events of the organization with this id")
	flags.BoolVar(&f.personal, "personal", false, "with names and addresses of the users, as they are now; the credential also needs users:read")
	cmd.MarkFlagsMutuallyExclusive("since", "after")
	f.apiFlags.register(cmd, to, envServer, "the backend API, port 8080")
	_ = cmd.RegisterFlagCompletionFunc("types", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return f.completeTypes(cmd.Context(), to, around, word), cobra.ShellCompDirectiveNoFileComp
	})
}

var subjectForm = regexp.MustCompile(`^([a-z_]+)(?:/([0-9]+))?$`)

// query returns the parameters of the first request.
func (f *eventFlags) query(now time.Time) (url.Values, error) {
	query := url.Values{"limit": {strconv.Itoa(eventPage)}}
	if f.after != "" {
		query.Set("after", f.after)
	} else if f.since != "" {
		since, err := parseTime(now, "--since", f.since)
		if err != nil {
			return nil, err
		}
		query.Set("since", since.UTC().Format(time.RFC3339Nano))
	}
	if len(f.types) > 0 {
		query.Set("types", strings.Join(f.types, ","))
	}
	if f.subject != "" {
		parts := subjectForm.FindStringSubmatch(f.subject)
		if parts == nil {
			return nil, usagef("--subject must be a kind and an id, such as user/456230741233932971, or a kind")
		}
		if query.Set("subject_type", parts[1]); parts[2] != "" {
			query.Set("subject_id", parts[2])
		}
	}
	if f.personal {
		query.Set("personal", "true")
	}
	if f.organization != "" {
		query.Set("organization_id", f.organization)
	}
	return query, nil
}

// parseTime returns the time of a flag that is given as such, or as the time since then.
func parseTime(now time.Time, flag, text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef("%s must be a time such as 2026-05-01T00:00:00Z, or how long ago, such as 90m", flag)
	}
	return at, nil
}

// eventTypes returns the server's types of events for a completion, which ignores all errors.
func (f *apiFlags) eventTypes(ctx context.Context, to *connection, around surroundings) []backendapi.EventType {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	server, err := f.open(ctx, to, around)
	if err != nil {
		return nil
	}
	var list backendapi.EventTypeList
	if server.get(ctx, "events/types", nil, &list) != nil {
		return nil
	}
	return list.Data
}

// completeTypes completes the last of the types.
func (f *eventFlags) completeTypes(ctx context.Context, to *connection, around surroundings, word string) []string {
	before := word[:strings.LastIndex(word, ",")+1]
	var words []string
	kind := ""
	for _, entry := range f.eventTypes(ctx, to, around) {
		if of, _, _ := strings.Cut(entry.Type, "."); of != kind {
			kind = of
			words = append(words, before+kind+".*")
		}
		words = append(words, before+entry.Type)
	}
	return words
}

// events requests a page of events.
func (a *api) events(ctx context.Context, query url.Values) (page backendapi.EventList, err error) {
	return page, a.get(ctx, "events", query, &page)
}

// following changes the parameters to those of the page after a cursor.
func following(query url.Values, cursor string) {
	query.Del("since")
	query.Set("after", cursor)
}

func eventsListCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var limit int
	var flags eventFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, the oldest first",
		Long: "List the events of the credential's deployment that the server still has, the oldest first. The credential needs the permission events:read.\n" +
			"Events have ids, states and names of changed members, but names and addresses of users only with --personal.",
		Example: `  kubectl cardea events list --since 24h --types 'user.*,membership.deleted' -n acme --use-key acme-backend-key
  kubectl cardea events list --since 2026-05-01T00:00:00Z --subject user/456230741233932971 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > eventsMost {
				return usagef("--limit must be 1 to %d", eventsMost)
			}
			query, err := flags.query(time.Now())
			if err != nil {
				return err
			}
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			list, err := server.listEvents(cmd.Context(), query, limit)
			if err != nil {
				return err
			}
			return around.print(format, list, func(w io.Writer) error { return writeEvents(w, list) })
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().IntVar(&limit, "limit", eventPage, fmt.Sprintf("how many to list, 1 to %d", eventsMost))
	flags.register(cmd, to, around, "1h", "")
	return cmd
}

// listEvents reads pages until it has as many events as the limit, or until there are no more.
func (a *api) listEvents(ctx context.Context, query url.Values, limit int) (backendapi.EventList, error) {
	list := backendapi.EventList{Data: []backendapi.Event{}, HasMore: true}
	for list.HasMore && len(list.Data) < limit {
		query.Set("limit", strconv.Itoa(min(eventPage, limit-len(list.Data))))
		page, err := a.events(ctx, query)
		if err != nil {
			return list, err
		}
		list.Data, list.HasMore, list.NextCursor = append(list.Data, page.Data...), page.HasMore, page.NextCursor
		following(query, page.NextCursor)
	}
	return list, nil
}

func writeEvents(w io.Writer, list backendapi.EventList) error {
	rows := make([][]string, len(list.Data))
	for i, e := range list.Data {
		rows[i] = []string{e.Sequence, second(e.Timestamp), e.Type, party(e.Subject), party(e.Actor), string(e.Data)}
	}
	if err := terminal.Table(w, []string{"SEQUENCE", "TIME (UTC)", "TYPE", "SUBJECT", "ACTOR", "DATA"}, rows); err != nil {
		return err
	}
	end := counted(len(list.Data), "event", "events")
	if list.HasMore {
		end += "; --after " + terminal.Clean(list.NextCursor) + " shows the next"
	}
	_, err := fmt.Fprintln(w, end+".")
	return err
}

// second formats the time of an event.
func second(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// party formats the subject or the actor of an event.
func party(p backendapi.EventParty) string { return strings.TrimSuffix(p.Type+"/"+p.Id, "/") }

func eventTypesCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "types",
		Short: "List the types of events; as JSON or YAML with schema and example",
		Long:  "List the types of events that the server has. With -o json and -o yaml, each has the JSON Schema of its data, and an example.\nThe credential needs the permission events:read.",
		Example: `  kubectl cardea events types -n acme --use-key acme-backend-key
  kubectl cardea events types -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			var list backendapi.EventTypeList
			if err := server.get(cmd.Context(), "events/types", nil, &list); err != nil {
				return err
			}
			return around.print(format, list, func(w io.Writer) error {
				rows := make([][]string, len(list.Data))
				for i, entry := range list.Data {
					rows[i] = []string{entry.Type, strconv.FormatInt(entry.Version, 10), entry.Description}
				}
				return terminal.Table(w, []string{"TYPE", "VERSION", "WHEN"}, rows)
			})
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	return cmd
}
