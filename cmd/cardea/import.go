package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// exitError ends the process with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// exitCode is what the process ends with after an error.
func exitCode(err error) int {
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return 1
}

// errRejected: lines of a file were rejected, and told already.
var errRejected = errors.New("some lines were rejected: correct them, and import the file again")

// importRequestTimeout bounds one request of an import.
const importRequestTimeout = time.Minute

func importCommand() *cobra.Command {
	var baseURL, keyFile string
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import files of JSON Lines over the backend API: API keys of other systems, by their hash",
		Long: "Import sends each file to the backend API, batch by batch, as the key in CARDEA_API_KEY or --api-key-file may (api_keys:write). It goes on where the file's " +
			"import came to; lines that were imported before change nothing. A line that is rejected is told on standard error.\n\n" +
			"It ends with 0, with 1 if any line was rejected, and with 2 if it could not run.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			key, err := importKey(keyFile)
			if err != nil {
				return &exitError{2, err}
			}
			if baseURL == "" {
				return &exitError{2, errors.New("--base-url or CARDEA_BASE_URL is required: where the backend API is, such as https://api.example.com")}
			}
			importer := &importer{
				baseURL: strings.TrimSuffix(baseURL, "/"), key: key, client: &http.Client{Timeout: importRequestTimeout},
				out: cmd.OutOrStdout(), problems: cmd.ErrOrStderr(), retryAfter: time.Second,
			}
			rejected := false
			for _, file := range files {
				counts, err := importer.file(cmd.Context(), file)
				if err != nil {
					return &exitError{2, fmt.Errorf("%s: %w", file, err)}
				}
				rejected = rejected || counts.Rejected > 0
			}
			if rejected {
				return &exitError{1, errRejected}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&baseURL, "base-url", "", "where the backend API is, such as https://api.example.com")
	cmd.Flags().StringVar(&keyFile, "api-key-file", "", "file with the API key; absent: CARDEA_API_KEY")
	return cmd
}

// importKey returns the API key: it is no flag, for others see those of a process.
func importKey(file string) (string, error) {
	key := os.Getenv("CARDEA_API_KEY")
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("--api-key-file: %w", err)
		}
		key = string(raw)
	}
	if key = strings.TrimSpace(key); key == "" {
		return "", errors.New("CARDEA_API_KEY or --api-key-file is required: a key with api_keys:write")
	}
	return key, nil
}
