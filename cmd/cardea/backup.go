package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/backup"
)

// stored are the flags of backup and restore.
type stored struct {
	store string
	rootKeyOptions
}

func (s *stored) register(flags *pflag.FlagSet) {
	registerStore(flags, &s.store)
	s.rootKeyOptions.register(flags)
}

// ring checks the flags and returns the root keys.
func (s *stored) ring() (*seal.Keyring, error) {
	if s.store == "" {
		return nil, errors.New("--store (or CARDEA_STORE) is missing: give a postgres:// URL, or sqlite:///path")
	}
	return s.keyring()
}

func backupCommand() *cobra.Command {
	var s stored
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write what the store holds at this moment into a new file, while it is in use",
		Long: "Write what the store holds at this moment into a new file, while it is in use. FILE holds what people are and their password hashes: keep it as you keep the store.\n" +
			"PostgreSQL's pg_dump has to be in PATH for a store of its.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, err := s.ring()
			if err != nil {
				return err
			}
			m, err := backup.Take(cmd.Context(), s.store, args[0], version, ring)
			if err != nil {
				return fmt.Errorf("back up: %w", err)
			}
			if m.MAC == "" {
				cmd.PrintErrln("no root key was given, so the backup has no proof of origin: restore takes it with --accept-unsigned only")
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: store %s (%s, schema %d)\n", args[0], m.StoreID, m.Engine, m.Schema)
			return err
		},
	}
	s.register(cmd.Flags())
	return cmd
}

func restoreCommand() *cobra.Command {
	var s stored
	var acceptUnsigned bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Write a backup into an empty store, which nobody uses",
		Long: "Write a backup into an empty store, which nobody uses: a file that is not there yet, or a database without tables. A store that is not empty, a backup of a newer\n" +
			"schema or of another engine, and one under other root keys are refused before anything is written. So is a backup that the root keys do not prove to be the install's own.\n" +
			"PostgreSQL's pg_restore has to be in PATH for a store of its.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ring, err := s.ring()
			if err != nil {
				return err
			}
			m, err := backup.Restore(cmd.Context(), s.store, args[0], ring, acceptUnsigned)
			if err != nil {
				return fmt.Errorf("restore: %w", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored store %s as it was at %s\n", m.StoreID, m.TakenAt.Format("2006-01-02T15:04:05Z07:00"))
			return err
		},
	}
	s.register(cmd.Flags())
	cmd.Flags().BoolVar(&acceptUnsigned, "accept-unsigned", false, "restore a backup without a MAC: of an older release, or taken without --root-key; anybody may have made or changed it")
	return cmd
}
