package main

import (
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

func keysCommand(to *connection, around surroundings) *cobra.Command {
	var format, keyID, cursor string
	var limit int
	var all bool
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "keys APP",
		Short: "List an app's API keys, declared and created over HTTP, with the ids that decisions, audits and gateways show",
		Long: "List the API keys of an app, named by its slug, of the credential's deployment: declared keys first, then keys created over HTTP, newest first.\n" +
			"The credential needs the permission api_keys:read.",
		Example: `  kubectl cardea keys shop --server http://127.0.0.1:8080 --use-key acme-backend-key -n acme
  kubectl cardea keys shop --key-id Zk3Qh8sVbN2p -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 100 {
				return usagef("--limit is 1 to 100")
			}
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			path := "api-auth/apps/" + url.PathEscape(args[0]) + "/keys"
			var list backendapi.ApiKeyList
			if keyID != "" {
				list.Keys = make([]backendapi.ApiKey, 1)
				err = server.get(cmd.Context(), path+"/"+url.PathEscape(keyID), nil, &list.Keys[0])
			} else {
				query := url.Values{"limit": {strconv.Itoa(limit)}, "include_inactive": {strconv.FormatBool(all)}}
				if cursor != "" {
					query.Set("cursor", cursor)
				}
				err = server.get(cmd.Context(), path, query, &list)
			}
			if err != nil {
				return err
			}
			return around.print(format, list, func(w io.Writer) error { return writeKeys(w, list) })
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().StringVar(&keyID, "key-id", "", "only the key with this public id, or this id")
	cmd.Flags().BoolVar(&all, "all", false, "also list revoked and expired keys")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many to list, 1 to 100")
	cmd.Flags().StringVar(&cursor, "cursor", "", "where to continue: the cursor of the previous page")
	flags.register(cmd, to, envServer, "the backend API, port 8080")
	return cmd
}

func writeKeys(w io.Writer, list backendapi.ApiKeyList) error {
	var rows [][]string
	for _, key := range list.Keys {
		origin := string(key.Source)
		if key.Resource != nil {
			origin = "APIKey " + *key.Resource
		}
		state := "active"
		switch {
		case key.RevokedAt != nil:
			state = "revoked"
		case !key.IsActive:
			state = "expired"
		}
		rows = append(rows, []string{orNone(ptr.Deref(key.KeyId, "")), key.Id, key.Name, state, origin, orNone(strings.Join(key.Permissions, ", ")), dayOrNone(key.LastUsedAt)})
	}
	if err := terminal.Table(w, []string{"KEY ID", "ID", "NAME", "STATE", "ORIGIN", "PERMISSIONS", "LAST USED (UTC)"}, rows); err != nil {
		return err
	}
	if !list.HasMore || list.NextCursor == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "--cursor %s shows the next page.\n", *list.NextCursor)
	return err
}

func dayOrNone(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return day(*at)
}
