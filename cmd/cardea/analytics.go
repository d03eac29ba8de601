package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/cardea-iam/cardea/internal/text"
	"github.com/spf13/cobra"
)

// errDiffers: sealed days were found that differ from their events, and were named already.
var errDiffers = errors.New("some sealed days differ from their events: keep the store as it is, and a backup of it, and report it")

func analyticsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "analytics", Short: "Look after what analytics counts", Args: cobra.NoArgs}
	cmd.AddCommand(verifyCommand())
	return cmd
}

func verifyCommand() *cobra.Command {
	var o backendOptions
	var from string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Count sealed days anew from their events, and name those that differ",
		Long: "Verify asks the backend API, as the key in CARDEA_API_KEY or --api-key-file may (analytics:read), to compare each sealed day of the key's deployment with " +
			"its events. A day that differs is named on standard output.\n\n" +
			"It ends with 0, with 1 if any day differs, and with 2 if it could not run.",
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
	cmd.Flags().StringVar(&from, "from", "", "the first day to look at, such as 2026-05-10; absent: the first there is")
	return cmd
}

// verifier asks for the verification of sealed days, page by page.
type verifier struct {
	*backend
	out io.Writer
}

// verification is a page of the answer.
type verification struct {
	Data []struct {
		Day    string
		Events int64
		Fault  *string
	}
	Next *string
}

// run names the days that differ, and returns how many there are.
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
			return differs, errors.New("the backend API does not get on: it asks for the same day again")
		}
		next = page.Next
	}
	_, err = fmt.Fprintf(v.out, "%d sealed days verified, %d differ\n", days, differs)
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
