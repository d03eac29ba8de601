package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/apiserver/users/imports/exports"
)

// exitError ends the process with its own exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return 1
}

// endsWithTwo lets a command exit with 2 if its flags, arguments or environment are invalid, because exit code 1 is a
// result of the command: rejected lines, or days that differ.
func endsWithTwo(cmd *cobra.Command) {
	two := func(err error) error {
		if err == nil {
			return nil
		}
		return &exitError{2, err}
	}
	args := cmd.Args
	cmd.Args = func(cmd *cobra.Command, names []string) error { return two(args(cmd, names)) }
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return two(err) })
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return two(fromEnvironment(cmd, os.LookupEnv)) }
}

// errRejected: lines of a file were rejected, and already listed.
var errRejected = errors.New("some lines were rejected: correct them, and import the file again")

// importOptions are the flags of import.
type importOptions struct {
	backendOptions
	from         string
	relyingParty string
	// connections are mappings: NAME=SLUG.
	connections []string
	dryRun      bool
}

// exports returns what the flags say about a conversion.
func (o *importOptions) exports() (exports.Options, error) {
	options := exports.Options{RelyingParty: o.relyingParty, Connections: map[string]string{}}
	for _, mapping := range o.connections {
		name, slug, err := exports.ConnectionOf(mapping)
		if err != nil {
			return options, fmt.Errorf("--connection: %w", err)
		}
		if other, twice := options.Connections[name]; twice && other != slug {
			return options, fmt.Errorf("--connection maps %q to %q and %q: map it once", name, other, slug)
		}
		options.Connections[name] = slug
	}
	switch {
	case o.from != "":
	case o.relyingParty != "":
		return options, errors.New("--rp-id needs --from: a line of type passkey has its own rp_id")
	case len(o.connections) > 0:
		return options, errors.New("--connection needs --from: a line of type identity has its own connection")
	}
	return options, nil
}

func importCommand() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import files of JSON Lines over the backend API: users, their identities at providers, organizations, sign-ins, and API keys by their hash",
		Long: "Import sends each file to the backend API, batch by batch. The key in CARDEA_API_KEY or --api-key-file needs users:write, user_factors:write, organizations:write or " +
			"api_keys:write, as the lines need. It continues where the file's import stopped; lines that were imported before change nothing. Rejected lines are listed on standard error.\n\n" +
			"With --from the files are exports of another system, which it converts to lines; omissions are listed on standard error. With --dry-run it checks form and " +
			"references, and sends nothing.\n\n" +
			"The exit code is 0, 1 if any line was rejected, and 2 if it could not run.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			rejected, err := importAll(cmd, o, files)
			switch {
			case err != nil:
				return &exitError{2, err}
			case rejected:
				return &exitError{1, errRejected}
			}
			return nil
		},
	}
	endsWithTwo(cmd)
	o.addTo(cmd)
	cmd.Flags().StringVar(&o.from, "from", "", "system of the exports: "+strings.Join(exports.Systems(), ", ")+"; absent: the files have lines")
	cmd.Flags().StringVar(&o.relyingParty, "rp-id", "", "with --from: relying party id of passkeys, such as example.com, for which the export does not contain it")
	cmd.Flags().StringArrayVar(&o.connections, "connection", nil, "with --from: connection of a provider's logins, such as google-oauth2=google: its name in the exports, and the slug of a Connection; repeatable; logins by other providers are left out")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "check form and references within the files, and send nothing")
	return cmd
}

// importAll imports the files, and reports whether any line was rejected.
func importAll(cmd *cobra.Command, o importOptions, names []string) (rejected bool, err error) {
	options, err := o.exports()
	if err != nil {
		return false, err
	}
	take := dryRun(cmd)
	if !o.dryRun {
		if take, err = sending(cmd, o); err != nil {
			return false, err
		}
	}
	files, done, err := openImports(cmd, o.from, options, names)
	defer done()
	if err != nil {
		return false, err
	}
	for _, file := range files {
		some, err := take(cmd.Context(), file)
		if err != nil {
			return false, fmt.Errorf("%s: %w", file.name, err)
		}
		rejected = rejected || some
	}
	return rejected, nil
}

// taker processes a file, and reports whether any of its lines was rejected.
type taker func(ctx context.Context, file importFile) (bool, error)

// sending is the taker that sends files to the backend API.
func sending(cmd *cobra.Command, o importOptions) (taker, error) {
	api, err := o.open("users:write, user_factors:write, organizations:write or api_keys:write, as the lines need")
	if err != nil {
		return nil, err
	}
	i := &importer{backend: api, out: cmd.OutOrStdout(), problems: cmd.ErrOrStderr()}
	return func(ctx context.Context, file importFile) (bool, error) {
		counts, err := i.file(ctx, file)
		return counts.Rejected > 0, err
	}, nil
}
