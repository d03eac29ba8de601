package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
	"github.com/cardea-iam/cardea/internal/permission"
)

// explanation is the response of GET /v1/authz/explain (AuthzExplanation).
type explanation struct {
	KeyID       string   `json:"key_id"`
	AppSlug     string   `json:"app_slug"`
	IsActive    bool     `json:"is_active"`
	Permissions []string `json:"permissions"`
	Scheme      *string  `json:"scheme"`
	SchemeFrom  *string  `json:"scheme_from"`
	AppScheme   *string  `json:"app_scheme"`
	Resource    string   `json:"resource"`
	Method      string   `json:"method"`
	Allowed     bool     `json:"allowed"`
	RetryAfter  *int64   `json:"retry_after"`
	Rules       []rule   `json:"rules"`
}

// rule is a rule of a scheme that matches the request.
type rule struct {
	Rule      string  `json:"rule"`
	Mode      string  `json:"mode"`
	Limit     int64   `json:"limit"`
	Remaining int64   `json:"remaining"`
	Denies    bool    `json:"denies"`
	ReturnsAt *string `json:"returns_at"`
}

// decision is the output of decide.
type decision struct {
	// Status is the status that a gateway would return: 200, 401, 403 or 429.
	Status int `json:"status"`
	// Reason is allowed, unauthenticated, permission_denied or rate_limited.
	Reason string `json:"reason"`
	// Missing are the permissions that the key lacks.
	Missing []string `json:"missing_permissions,omitempty"`
	// AddressChecked is true if an address was given, so that the key's address ranges were checked.
	AddressChecked bool        `json:"address_checked"`
	Explanation    explanation `json:"explanation"`
}

// evaluate applies the order of a decision: the key, its permissions, its limits.
func evaluate(e explanation, required []string) decision {
	v := decision{Status: http.StatusOK, Reason: "allowed", Explanation: e}
	have := permission.NewSet(e.Permissions)
	for _, name := range required {
		if !have.Allows(name) {
			v.Missing = append(v.Missing, name)
		}
	}
	switch {
	case !e.IsActive:
		v.Status, v.Reason = http.StatusUnauthorized, "unauthenticated"
	case len(v.Missing) > 0:
		v.Status, v.Reason = http.StatusForbidden, "permission_denied"
	case !e.Allowed:
		v.Status, v.Reason = http.StatusTooManyRequests, "rate_limited"
	}
	return v
}

func decideCommand(to *connection, around surroundings) *cobra.Command {
	var format, keyID, address string
	var required []string
	var flags apiFlags
	cmd := &cobra.Command{
		Use:   "decide [APIKEY] METHOD PATH",
		Short: "Show the decision for a key and a request, and what is left of its limits; nothing is used up",
		Long: "Show the decision for a key and a request. The key is an APIKey of the namespace, or with --key-id a key with that public id.\n" +
			"The credential that you use for the request is a different one. It needs the permission decisions:read.",
		Example: `  kubectl cardea decide globex-tracking-key GET /v1/orders --permission orders:read -n acme --use-key acme-backend-key
  kubectl cardea decide --key-id Zk3Qh8sVbN2p POST /v1/orders`,
		Args: func(_ *cobra.Command, args []string) error {
			if wanted := 3; keyID != "" && len(args) != wanted-1 || keyID == "" && len(args) != wanted {
				return usagef("give APIKEY METHOD PATH, or --key-id ID METHOD PATH")
			}
			return nil
		},
		ValidArgsFunction: to.completeOf(v1alpha1.KindAPIKey),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := keyID, error(nil)
			if id == "" {
				if id, err = publicID(cmd.Context(), to, args[0]); err != nil {
					return err
				}
				args = args[1:]
			}
			server, err := flags.open(cmd.Context(), to, around)
			if err != nil {
				return err
			}
			query := url.Values{"key_id": {id}, "method": {args[0]}, "resource": {args[1]}}
			if address != "" {
				query.Set("client_ip", address)
			}
			var explained explanation
			if err := server.get(cmd.Context(), "v1/authz/explain", query, &explained); err != nil {
				return err
			}
			v := evaluate(explained, required)
			v.AddressChecked = address != ""
			err = around.print(format, v, func(w io.Writer) error { return v.write(w, around.style()) })
			if err == nil && v.Status != http.StatusOK {
				return &faultFound{}
			}
			return err
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().StringVar(&keyID, "key-id", "", "public id of the key, for keys that no APIKey declares")
	cmd.Flags().StringVar(&address, "client-ip", "", "client address of the request; absent: the key's address ranges are not checked")
	cmd.Flags().StringArrayVar(&required, "permission", nil, "permission that the request needs, may be repeated")
	flags.register(cmd, to, envDecisionServer, "the decision API, port 8082")
	return cmd
}

// publicID returns the public id of an APIKey's key.
func publicID(ctx context.Context, to *connection, name string) (string, error) {
	opened, err := to.open(ctx)
	if err != nil {
		return "", err
	}
	obj, err := opened.Resource(ctx, v1alpha1.KindAPIKey, opened.namespace, name)
	if err != nil {
		return "", opened.explain(err, "get", fmt.Sprintf("%s %q", v1alpha1.KindAPIKey, name), opened.namespace)
	}
	id := obj.(*v1alpha1.APIKey).Status.KeyID
	if id == "" {
		return "", fmt.Errorf("%s %q was never issued: see kubectl cardea why apikey/%s -n %s", v1alpha1.KindAPIKey, name, name, opened.namespace)
	}
	return id, nil
}

// write writes the decision as text.
func (v decision) write(w io.Writer, style terminal.Style) error {
	e := v.Explanation
	said := style.Bad(fmt.Sprintf("%d %s", v.Status, v.Reason))
	if v.Status == http.StatusOK {
		said = style.Good(fmt.Sprintf("%d %s", v.Status, v.Reason))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s %s\n\n", said, terminal.Clean(e.Method), terminal.Clean(e.Resource))
	lines := [][2]string{{"key", e.KeyID + " of app " + e.AppSlug}, {"permissions", orNone(strings.Join(e.Permissions, ", "))}}
	if len(v.Missing) > 0 {
		lines = append(lines, [2]string{"missing", strings.Join(v.Missing, ", ") + ": add it to the key and to its app, if it should have it"})
	}
	if !e.IsActive {
		why := "it is revoked or expired, or its app is inactive"
		if v.AddressChecked {
			why += ", or the address is outside of its ranges"
		}
		lines = append(lines, [2]string{"key is refused", why})
	}
	if !v.AddressChecked {
		lines = append(lines, [2]string{"address ranges", "of the key, if it has any, were not checked: set --client-ip"})
	}
	scheme := "none: the key is not limited"
	if e.Scheme != nil {
		scheme = *e.Scheme
		if e.SchemeFrom != nil {
			scheme += ", from the " + *e.SchemeFrom
		}
		if e.AppScheme != nil {
			scheme += "; and the rules of " + *e.AppScheme + ", the app's scheme, that count the whole app"
		}
	}
	lines = append(lines, [2]string{"scheme", scheme})
	if e.RetryAfter != nil {
		lines = append(lines, [2]string{"retry after", strconv.FormatInt(*e.RetryAfter, 10) + " s"})
	}
	for _, line := range lines {
		fmt.Fprintf(&b, "%-15s %s\n", line[0], terminal.Clean(line[1]))
	}
	if _, err := io.WriteString(w, b.String()); err != nil || len(e.Rules) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return terminal.Table(w, []string{"RULE", "COUNTS", "LEFT", "OF", "RETURNS", ""}, v.rules())
}

func (v decision) rules() [][]string {
	var rows [][]string
	for _, r := range v.Explanation.Rules {
		returns, denies := "-", ""
		if r.ReturnsAt != nil {
			returns = *r.ReturnsAt
		}
		if r.Denies {
			denies = "refuses"
		}
		rows = append(rows, []string{r.Rule, r.Mode, strconv.FormatInt(r.Remaining, 10), strconv.FormatInt(r.Limit, 10), returns, denies})
	}
	// Rules that refuse come first.
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(b[5], a[5]) })
	return rows
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
