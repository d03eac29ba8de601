package main

import (
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/internal/apikey"
)

func migrateCommand() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the store's schema to this version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger("info")
			if err != nil {
				return err
			}
			st, err := openStore(cmd.Context(), url, true, log, nil)
			if err != nil {
				return err
			}
			defer st.Close()
			return st.Migrate(cmd.Context())
		},
	}
	registerStore(cmd.Flags(), &url)
	return cmd
}

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Work with API keys"}
	var prefix string
	create := &cobra.Command{
		Use:   "new",
		Short: "Print a new API key, for a Secret that an APIKey adopts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := apikey.Mint(rand.Reader, prefix)
			if err != nil {
				return fmt.Errorf("--prefix: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key.Plain())
			return err
		},
	}
	create.Flags().StringVar(&prefix, "prefix", apikey.DefaultPrefix, "prefix of the key: the keyPrefix of its app")
	cmd.AddCommand(create)
	return cmd
}
