// Command cardea is the operator, the server and their tools in one binary.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cardea:", err)
		os.Exit(exitCode(err))
	}
}

// newRoot returns the root command with all commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "cardea",
		Short:         "Identity and access as Kubernetes resources",
		SilenceUsage:  true,
		SilenceErrors: true,
		// Every flag can also be set as CARDEA_<NAME> in the environment; the command line takes precedence.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd, os.LookupEnv) },
	}
	root.AddCommand(operatorCommand(), serverCommand(), standaloneCommand(), migrateCommand(), backupCommand(), restoreCommand(), importCommand(), analyticsCommand(), auditCommand(), keyCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
}
