// Command kubectl-cardea is `kubectl cardea`: it explains why a resource is not active, exports a tenant, works with
// keys, and queries the server, with the rights of its user.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// version is set by the linker.
var version = "dev"

// completer is the name of the program that kubectl runs for a plugin's completions.
const completer = "kubectl_complete-cardea"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(surroundings{in: os.Stdin, out: os.Stdout, err: os.Stderr, lookup: os.LookupEnv})
	root.SetArgs(arguments(os.Args))
	err := root.ExecuteContext(ctx)
	var quiet *faultFound
	if err != nil && !errors.As(err, &quiet) {
		fmt.Fprintln(os.Stderr, "kubectl cardea:", terminal.Clean(err.Error()))
	}
	os.Exit(exitCode(err))
}

// arguments returns the command line; for the completer, the words to complete.
func arguments(args []string) []string {
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") == completer {
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...)
	}
	return args[1:]
}

// newRoot returns the root command with all commands.
func newRoot(around surroundings) *cobra.Command {
	to := &connection{}
	root := &cobra.Command{
		Use:   "kubectl-cardea",
		Short: "Inspect Cardea: why a resource is not active, tenants as YAML, keys, users and numbers",
		Long: "Inspect Cardea with your own rights: why a resource is not active, tenants as YAML, keys, users and numbers.\n\n" +
			"Exit codes: 0 success; 1 not ready, not allowed or not found; 2 wrong usage; 3 unreachable, or you lack a right.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl cardea"},
		SilenceUsage:  true,
		SilenceErrors: true,
		// kubectl completes plugins with a separate program.
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(around.in)
	root.SetOut(around.out)
	root.SetErr(around.err)
	to.register(root)
	root.AddCommand(
		whyCommand(to, around), exportCommand(to, around), keyCommand(to, around),
		keysCommand(to, around), usersCommand(to, around), analyticsCommand(to, around), eventsCommand(to, around), webhooksCommand(to, around),
		decideCommand(to, around), toolsCommand(to, around), importCommand(to, around),
		doctorCommand(to, around), versionCommand(),
	)
	markRuns(root)
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this plugin",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
}
