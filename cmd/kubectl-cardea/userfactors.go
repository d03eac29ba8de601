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

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// findUser returns the user that an argument names: an id, or the primary email in any case. It does not search
// other addresses of users, which may be unverified and belong to another person.
func (a *api) findUser(ctx context.Context, named string) (user backendapi.UserSummary, err error) {
	if !strings.Contains(named, "@") {
		if strings.ContainsFunc(named, func(r rune) bool { return r < '0' || r > '9' }) || named == "" {
			return user, usagef("USER must be the id or the email of a user, not %q", named)
		}
		return backendapi.UserSummary{Id: named}, nil
	}
	for offset := 0; ; offset += 100 {
		var list backendapi.UserList
		if err := a.get(ctx, "users", url.Values{"search": {named}, "limit": {"100"}, "offset": {strconv.Itoa(offset)}}, &list); err != nil {
			return user, err
		}
		for _, user := range list.Data {
			if strings.EqualFold(user.Email, named) {
				return user, nil
			}
		}
		if !list.HasMore {
			return user, fmt.Errorf("no user of the deployment has the primary email %s", named)
		}
	}
}

// pathOf returns a path below a user.
func pathOf(user backendapi.UserSummary, below string) string {
	return "users/" + url.PathEscape(user.Id) + "/" + below
}

// nameOf returns the email of a user, or the id if only that is known.
func nameOf(user backendapi.UserSummary) string { return cmp.Or(user.Email, user.Id) }

// userCommand makes a command that acts on one user.
func userCommand(to *connection, around surroundings, cmd *cobra.Command, do func(context.Context, *api, backendapi.UserSummary) error) *cobra.Command {
	var flags apiFlags
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		server, err := flags.open(cmd.Context(), to, around)
		if err != nil {
			return err
		}
		user, err := server.findUser(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), server, user)
	}
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	return cmd
}

func factorsCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	cmd := userCommand(to, around, &cobra.Command{
		Use:   "factors USER",
		Short: "Show the second factors of a user, named by id or email",
		Long: "Show the authenticator apps, texts, passkeys and recovery codes of a user, named by the id or the primary email.\n" +
			"The credential needs the permission user_factors:read, and users:read for an email.",
		Example: `  kubectl cardea users factors ada@acme.example --use-key acme-helpdesk-key -n acme`,
	}, func(ctx context.Context, server *api, user backendapi.UserSummary) error {
		var factors backendapi.SecondFactors
		if err := server.get(ctx, pathOf(user, "second-factors"), nil, &factors); err != nil {
			return err
		}
		return around.print(format, factors, func(w io.Writer) error { return writeFactors(w, factors) })
	})
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	return cmd
}

func writeFactors(w io.Writer, f backendapi.SecondFactors) error {
	usable := map[bool]string{true: "usable", false: "not usable"}
	var rows [][]string
	for _, a := range f.Totp {
		rows = append(rows, []string{"totp", a.Id, a.Name, usable[a.Usable], day(a.CreatedAt), dayOrNone(a.LastUsedAt)})
	}
	for _, p := range f.Passkeys {
		rows = append(rows, []string{"passkey", p.Id, p.Name, usable[p.Usable], day(p.CreatedAt), dayOrNone(p.LastUsedAt)})
	}
	for _, t := range f.Sms {
		rows = append(rows, []string{"sms", t.PhoneNumberId, t.PhoneNumber, usable[t.Usable], day(t.CreatedAt), "-"})
	}
	if err := terminal.Table(w, []string{"KIND", "ID", "NAME", "STATE", "ADDED (UTC)", "LAST USED (UTC)"}, rows); err != nil {
		return err
	}
	left := 0
	if f.RecoveryCodes != nil {
		left = f.RecoveryCodes.Left
	}
	twoStep := map[bool]string{true: "on", false: "off"}[f.TwoStep]
	_, err := fmt.Fprintf(w, "Two-step sign-in is %s, the deployment requires %s, recovery codes left: %d.\n", twoStep, terminal.Clean(string(f.Required)), left)
	return err
}

func temporaryCodeCommand(to *connection, around surroundings) *cobra.Command {
	var format string
	var lifetime time.Duration
	cmd := userCommand(to, around, &cobra.Command{
		Use:   "temporary-code USER",
		Short: "Create a code that replaces the second factor of a user once",
		Long: "Create a temporary code for a user that lost a second factor, named by the id or the primary email. The user enters it as a recovery code,\n" +
			"after the password or an emailed code. It works once, replaces the former one, and is not shown again. The user is notified by mail.\n" +
			"The credential needs the permission user_factors:write, and users:read for an email.",
		Example: `  kubectl cardea users temporary-code ada@acme.example --lifetime 30m --use-key acme-helpdesk-key -n acme`,
	}, func(ctx context.Context, server *api, user backendapi.UserSummary) error {
		seconds := int64(lifetime / time.Second)
		var code backendapi.TemporaryCode
		if err := server.post(ctx, pathOf(user, "temporary-code"), backendapi.TemporaryCodeCreate{LifetimeSeconds: &seconds}, &code); err != nil {
			return err
		}
		return around.print(format, code, func(w io.Writer) error {
			_, _ = fmt.Fprintf(around.err, "The temporary code of %s works once, until %s UTC:\n", terminal.Clean(nameOf(user)), day(code.ExpiresAt))
			_, err := fmt.Fprintln(w, terminal.Clean(code.Code))
			return err
		})
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if lifetime < 10*time.Minute || lifetime > 24*time.Hour || lifetime%time.Second != 0 {
			return usagef("--lifetime must be 10m to 24h, in whole seconds")
		}
		return nil
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().DurationVar(&lifetime, "lifetime", time.Hour, "how long the code is valid, 10m to 24h")
	return cmd
}

func resetFactorsCommand(to *connection, around surroundings) *cobra.Command {
	var format, reason string
	var yes bool
	cmd := userCommand(to, around, &cobra.Command{
		Use:   "reset-factors USER",
		Short: "Remove every second factor and code of a user, and end all sessions; this cannot be undone",
		Long: "Remove every authenticator app, passkey, text and recovery code of a user, named by the id or the primary email, turn two-step sign-in off, and end\n" +
			"all sessions. The user is notified by mail. If the user can show the first factor, prefer `users temporary-code`.\n" +
			"The credential needs the permission user_factors:write, and users:read for an email.",
		Example: `  kubectl cardea users reset-factors ada@acme.example --reason "Ticket 4711" --yes --use-key acme-helpdesk-key -n acme`,
	}, func(ctx context.Context, server *api, user backendapi.UserSummary) error {
		if !yes {
			if err := confirmReset(around, nameOf(user)); err != nil {
				return err
			}
		}
		var why backendapi.SecondFactorsReset
		if reason != "" {
			why.Reason = &reason
		}
		var done backendapi.SecondFactorsResetAnswer
		if err := server.post(ctx, pathOf(user, "second-factors/reset"), why, &done); err != nil {
			return err
		}
		return around.print(format, done, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "The second factors of %s are reset. Factors removed: %d. Sign-ins ended: %d.\n", terminal.Clean(nameOf(user)), done.Removed, done.SessionsRevoked)
			return err
		})
	})
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit, at most 500 characters")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// confirmReset asks the user at a terminal to type the name of the user to reset.
func confirmReset(around surroundings, name string) error {
	if !isTerminal(around.in) {
		return usagef("every second factor of %s would be removed: add --yes to confirm, because there is no terminal for a question", name)
	}
	_, _ = fmt.Fprintf(around.err, "Every second factor and every session of %[1]s ends.\nType %[1]s to continue: ", terminal.Clean(name))
	if !around.types(name) {
		return fmt.Errorf("nothing was removed: %s was not typed", name)
	}
	return nil
}
