package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

func usersCommand(to *connection, around surroundings) *cobra.Command {
	var format, search string
	var limit, offset int
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "users",
		Short: "List the deployment's users, or those whose name or email contains a text",
		Long:  "List the users of the credential's deployment, newest first. The credential needs the permission users:read.",
		Example: `  kubectl cardea users --server http://127.0.0.1:8080 --use-key acme-backend-key -n acme
  kubectl cardea users --search lovelace -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > 100 || offset < 0 {
				return usagef("--limit must be 1 to 100, and --offset 0 or more")
			}
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			query := url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}
			if search != "" {
				query.Set("search", search)
			}
			var list backendapi.UserList
			if err := server.get(cmd.Context(), "users", query, &list); err != nil {
				return err
			}
			return around.print(format, list, func(w io.Writer) error { return writeUsers(w, list) })
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().StringVar(&search, "search", "", "text that the name or the email contains, in any case")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many to list, 1 to 100")
	cmd.Flags().IntVar(&offset, "offset", 0, "how many to skip")
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	cmd.AddCommand(factorsCommand(to, around), temporaryCodeCommand(to, around), resetFactorsCommand(to, around))
	return cmd
}

func writeUsers(w io.Writer, list backendapi.UserList) error {
	var rows [][]string
	for _, user := range list.Data {
		state := "active"
		if user.Disabled {
			state = "disabled"
		}
		rows = append(rows, []string{user.Id, strings.TrimSpace(user.FirstName + " " + user.LastName), user.Email, state, day(user.CreatedAt)})
	}
	if err := terminal.Table(w, []string{"ID", "NAME", "EMAIL", "STATE", "CREATED (UTC)"}, rows); err != nil {
		return err
	}
	shown := list.Offset + int64(len(list.Data))
	if !list.HasMore {
		_, err := fmt.Fprintf(w, "%d of %d users.\n", len(list.Data), list.Total)
		return err
	}
	_, err := fmt.Fprintf(w, "%d of %d users; --offset %d shows the next.\n", len(list.Data), list.Total, shown)
	return err
}

// chartWidth is the maximum width of a bar, in columns.
const chartWidth = 40

func analyticsCommand(to *connection, around surroundings) *cobra.Command {
	var format, from, until string
	var days int
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "analytics",
		Short: "Show sign-ins and sign-ups of a period, with a chart of its days",
		Long:  "Show sign-ins and sign-ups of the credential's deployment. The credential needs the permission analytics:read.",
		Example: `  kubectl cardea analytics --days 7
  kubectl cardea analytics --from 2026-05-01T00:00:00Z --to 2026-06-01T00:00:00Z -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			begin, end, err := period(time.Now(), days, from, until)
			if err != nil {
				return err
			}
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			var summary backendapi.AnalyticsSummary
			if err := server.get(cmd.Context(), "analytics", url.Values{"from": {begin}, "to": {end}}, &summary); err != nil {
				return err
			}
			return around.print(format, summary, func(w io.Writer) error { return writeAnalytics(w, begin, end, summary) })
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().IntVar(&days, "days", 14, "how many days to show, today included, 1 to 1100; UTC")
	cmd.Flags().StringVar(&from, "from", "", "start of the period, RFC 3339, instead of --days")
	cmd.Flags().StringVar(&until, "to", "", "end of the period, RFC 3339; absent: the end of today, UTC")
	cmd.MarkFlagsMutuallyExclusive("days", "from")
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	return cmd
}

// period returns the requested period: whole UTC days that end with today, or --from and --to.
func period(now time.Time, days int, from, until string) (begin, end string, err error) {
	tomorrow := now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	finish := tomorrow
	if until != "" {
		if finish, err = time.Parse(time.RFC3339, until); err != nil {
			return "", "", usagef("--to must be a time such as 2026-05-01T00:00:00Z")
		}
	}
	start := finish.AddDate(0, 0, -days)
	if from != "" {
		if start, err = time.Parse(time.RFC3339, from); err != nil {
			return "", "", usagef("--from must be a time such as 2026-05-01T00:00:00Z")
		}
	} else if days < 1 || days > 1100 {
		return "", "", usagef("--days is 1 to 1100")
	}
	if !finish.After(start) {
		return "", "", usagef("the period is empty: --to must be later than --from")
	}
	return start.UTC().Format(time.RFC3339Nano), finish.UTC().Format(time.RFC3339Nano), nil
}

func writeAnalytics(w io.Writer, begin, end string, s backendapi.AnalyticsSummary) error {
	rows := [][]string{
		{"users who signed in", strconv.FormatInt(s.UniqueSignins, 10), change(s.UniqueSigninsChange)},
		{"sign-ups", strconv.FormatInt(s.Signups, 10), change(s.SignupsChange)},
		{"organizations created", strconv.FormatInt(s.OrganizationsCreated, 10), change(s.OrganizationsCreatedChange)},
		{"workspaces created", strconv.FormatInt(s.WorkspacesCreated, 10), change(s.WorkspacesCreatedChange)},
		{"sign-ups of all time", strconv.FormatInt(s.TotalSignups, 10), ""},
	}
	if _, err := fmt.Fprintf(w, "%s to %s\n\n", begin, end); err != nil {
		return err
	}
	if err := terminal.Table(w, []string{"", "NUMBER", "CHANGE"}, rows); err != nil {
		return err
	}
	most := int64(0)
	for _, day := range s.DailyMetrics {
		most = max(most, day.Signins)
	}
	var chart [][]string
	for _, day := range s.DailyMetrics {
		bar := terminal.Bar(day.Signins, most, chartWidth)
		chart = append(chart, []string{day.Day, strconv.FormatInt(day.Signups, 10), strconv.FormatInt(day.Signins, 10), bar})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return terminal.Table(w, []string{"DAY (UTC)", "SIGN-UPS", "SIGNED IN", ""}, chart)
}

// change formats a change in percent. It returns "-" for nil: the previous period had a count of 0.
func change(percent *float64) string {
	if percent == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", *percent)
}
