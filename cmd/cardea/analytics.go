package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/internal/text"
)

// errDiffers: rolled-up days differ from their events, and were already listed.
var errDiffers = errors.New("some rolled-up days differ from their events: keep the store and a backup of it unchanged, and report it")

func analyticsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "analytics", Short: "Verify the counts of analytics", Args: cobra.NoArgs}
	cmd.AddCommand(verifyCommand())
	return cmd
}

func verifyCommand() *cobra.Command {
	var o backendOptions
	var from string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Count rolled-up days again from their events, and list days that differ",
		Long: "Verify lets the backend API compare each rolled-up day of the key's deployment with its events. The key is in CARDEA_API_KEY or --api-key-file, and needs " +
			"analytics:read. Days that differ are listed on standard output.\n\n" +
			"The exit code is 0, 1 if any day differs, and 2 if it could not run.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := o.open("analytics:read")
			if err != nil {
				return &exitError{2, err}
			}
			v := &verifier{backend: api, out: cmd.OutOrStdout()}
			differs, err := v.run(cmd.Context(), from)
			switch {
			case err != nil:
				return &exitError{2, err}
			case differs > 0:
				return &exitError{1, errDiffers}
			}
			return nil
		},
	}
	endsWithTwo(cmd)
	o.addTo(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the first day to verify, such as 2026-05-10; absent: the first day of the deployment")
	return cmd
}

// verifier requests the verification of rolled-up days, page by page.
type verifier struct {
	*backend
	out io.Writer
}

// verification is a page of the response.
type verification struct {
	Data []struct {
		Day    string
		Events int64
		Fault  *string
	}
	Next *string
}

// run lists the days that differ, and returns their number.
func (v *verifier) run(ctx context.Context, from string) (differs int, err error) {
	days := 0
	for next := &from; next != nil; {
		page, err := v.page(ctx, *next)
		if err != nil {
			return differs, err
		}
		for _, day := range page.Data {
			days++
			if day.Fault != nil {
				differs++
				_, _ = fmt.Fprintf(v.out, "%s: %s\n", text.Printable(day.Day), text.Printable(*day.Fault))
			}
		}
		if page.Next != nil && *page.Next == *next {
			return differs, errors.New("the backend API makes no progress: it returns the same day again")
		}
		next = page.Next
	}
	_, err = fmt.Fprintf(v.out, "%d rolled-up days verified, %d differ\n", days, differs)
	return differs, err
}

func (v *verifier) page(ctx context.Context, from string) (page verification, err error) {
	path := "/analytics/verification"
	if from != "" {
		path += "?" + url.Values{"from": {from}}.Encode()
	}
	err = v.retried(ctx, func() (status int, err error) {
		page, status, err = ask[verification](ctx, v.backend, http.MethodGet, path, nil)
		return status, err
	})
	return page, err
}
