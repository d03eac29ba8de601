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
		Short: "Write the contents of the store into a new file, while the store is in use",
		Long: "Write the contents of the store at this moment into a new file, while the store is in use. FILE contains users' data and password hashes: protect it like the store.\n" +
			"A PostgreSQL store needs pg_dump in PATH.",
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
				cmd.PrintErrln("no root key was given, so the backup has no MAC: restore accepts it only with --accept-unsigned")
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
		Short: "Write a backup into an empty store that is not in use",
		Long: "Write a backup into an empty store that is not in use: a new file, or a database without tables. Before anything is written, restore refuses a store that is not\n" +
			"empty, and a backup of a newer schema, of another engine, under other root keys, or without a valid MAC under the root keys.\n" +
			"A PostgreSQL store needs pg_restore in PATH.",
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
	cmd.Flags().BoolVar(&acceptUnsigned, "accept-unsigned", false, "restore a backup without a MAC: of an older release, or taken without --root-key; any party can have created or changed it")
	return cmd
}
