package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// runVerify runs the command against a backend API whose handler is answer.
func runVerify(t *testing.T, answer http.HandlerFunc, args ...string) (out string, err error) {
	t.Helper()
	server := httptest.NewServer(answer)
	defer server.Close()
	t.Setenv("CARDEA_API_KEY", "secret")
	t.Setenv("CARDEA_BASE_URL", server.URL)
	root := newRoot()
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"analytics", "verify"}, args...))
	err = root.ExecuteContext(t.Context())
	return stdout.String(), err
}

// pages returns a handler that responds with the page for the query parameter from, "" for the first page.
func pages(answers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/analytics/verification" || r.Header.Get("Authorization") != "Bearer secret" {
			http.Error(w, `{"message":"no"}`, http.StatusUnauthorized)
			return
		}
		_, _ = fmt.Fprint(w, answers[r.URL.Query().Get("from")])
	}
}

func TestVerifyNamesTheDaysThatDiffer(t *testing.T) {
	out, err := runVerify(t, pages(map[string]string{
		"":           `{"data":[{"day":"2026-05-10","events":3,"fault":null},{"day":"2026-05-11","events":4,"fault":"its log is damaged"}],"next":"2026-05-12"}`,
		"2026-05-12": `{"data":[{"day":"2026-05-13","events":0,"fault":null}],"next":null}`,
	}))
	if exitCode(err) != 1 || out != "2026-05-11: its log is damaged\n3 rolled-up days verified, 1 differ\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestVerifyEndsWithZeroWhereNothingDiffers(t *testing.T) {
	out, err := runVerify(t, pages(map[string]string{"2026-05-12": `{"data":[],"next":null}`}), "--from", "2026-05-12")
	if err != nil || out != "0 rolled-up days verified, 0 differ\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestVerifyThatCannotRunEndsWithTwo(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"refused":          func(w http.ResponseWriter, _ *http.Request) { http.Error(w, `{"message":"no"}`, http.StatusForbidden) },
		"no page":          pages(nil),
		"the same day":     pages(map[string]string{"": `{"data":[],"next":"2026-05-12"}`, "2026-05-12": `{"data":[],"next":"2026-05-12"}`}),
		"one that is busy": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if answer == nil {
				busy := 0
				answer = func(w http.ResponseWriter, _ *http.Request) {
					if busy++; busy == 1 {
						http.Error(w, "{}", http.StatusServiceUnavailable)
						return
					}
					_, _ = fmt.Fprint(w, `{"data":[],"next":null}`)
				}
				if _, err := runVerify(t, answer); err != nil || busy != 2 {
					t.Errorf("%v after %d requests", err, busy)
				}
				return
			}
			if _, err := runVerify(t, answer); exitCode(err) != 2 {
				t.Errorf("%v", err)
			}
		})
	}
	t.Setenv("CARDEA_API_KEY", "")
	root := newRoot()
	root.SetArgs([]string{"analytics", "verify"})
	if err := root.ExecuteContext(t.Context()); exitCode(err) != 2 {
		t.Errorf("without a key: %v", err)
	}
}
