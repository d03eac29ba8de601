package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/schema"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// level is the result of a check.
type level string

const (
	levelOK   level = "OK"
	levelWarn level = "WARN"
	levelFail level = "FAIL"
)

// check is one line of doctor.
type check struct {
	Name    string `json:"name"`
	Level   level  `json:"level"`
	Message string `json:"message"`
	// Fix says what to do, or is "".
	Fix string `json:"fix,omitempty"`
}

func ok(name, format string, args ...any) check {
	return check{Name: name, Level: levelOK, Message: fmt.Sprintf(format, args...)}
}

// doctor examines an install.
type doctor struct {
	*cluster
	// system is the namespace of Cardea.
	system  string
	metrics []string
	timeout time.Duration
	now     func() time.Time
}

func doctorCommand(to *connection, around surroundings) *cobra.Command {
	var format, system string
	var metrics []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check versions, kinds, your rights, the operator's lease, clocks, store, root key and servers",
		Long: "Check an install, as far as your rights go. Each line is OK, WARN or FAIL, with a fix. The state of the store and the root key is taken from\n" +
			"conditions of resources in the namespace, and that of servers from their metrics, if --metrics-url names them.",
		Example: `  kubectl cardea doctor -n acme
  kubectl cardea doctor -n acme --metrics-url http://127.0.0.1:8090`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opened, err := to.open(cmd.Context())
			if err != nil {
				return err
			}
			d := &doctor{cluster: opened, system: system, metrics: metrics, timeout: to.timeout, now: time.Now}
			checks, err := d.examine(cmd.Context())
			if err != nil {
				return err
			}
			err = around.print(format, map[string]any{"checks": checks}, func(w io.Writer) error { return writeChecks(w, around.style(), checks) })
			if err == nil && slices.ContainsFunc(checks, func(c check) bool { return c.Level == levelFail }) {
				return &faultFound{}
			}
			return err
		},
	}
	outputFlag(cmd, &format, formatTable, formatJSON, formatYAML)
	cmd.Flags().StringVar(&system, "system-namespace", "cardea-system", "namespace of Cardea")
	cmd.Flags().StringArrayVar(&metrics, "metrics-url", nil, "URL of a server's or operator's metrics listener, port 8090; may be repeated")
	return cmd
}

// examine runs all checks. It returns an error if the cluster is unreachable.
func (d *doctor) examine(ctx context.Context) ([]check, error) {
	checks := []check{ok("plugin", "version %s", version)}
	apiServer, err := d.checkAPIServer(ctx)
	if err != nil {
		return nil, err
	}
	checks = append(checks, apiServer...)
	checks = append(checks, d.checkKinds(ctx))
	running, operator := d.checkInstall(ctx)
	leader := d.checkLease(ctx, running)
	servers := d.checkServers(ctx, running)
	checks = append(append(checks, operator...), leader...)
	checks = append(checks, d.checkRights(ctx)...)
	checks = append(checks, d.checkConditions(ctx, signOfLife(running, leader, servers))...)
	return append(checks, servers...), nil
}

// signOfLife returns the evidence that a process that uses the store runs, "" for none. Conditions are no evidence,
// because they stay as they are when no operator runs.
func signOfLife(running installed, leader, servers []check) string {
	switch {
	case running.ready:
		return running.name + " has a ready replica"
	case len(leader) > 0 && leader[0].Level == levelOK:
		return "an operator leads"
	}
	for _, c := range servers {
		if c.Level == levelOK {
			return c.Name + " is ready"
		}
	}
	return ""
}

// shown is how many fields a line lists.
const shown = 3

// checkKinds compares the CRDs with the kinds of this version, field by field.
func (d *doctor) checkKinds(ctx context.Context) check {
	const name = "kinds"
	var document []byte
	lister, err := discovery.NewDiscoveryClientForConfig(d.config)
	if err == nil {
		document, err = lister.RESTClient().Get().AbsPath("/openapi/v3/apis/"+v1alpha1.GroupVersion.String()).
			SetHeader("Accept", "application/json").Do(ctx).Raw()
	}
	var found schema.Difference
	if err == nil {
		found, err = schema.Compare(document)
	}
	switch {
	case err != nil:
		return check{name, levelWarn, "the CRDs could not be compared: " + d.explain(err, "read", "the API server's OpenAPI document", "").Error(), "ask a cluster admin"}
	case len(found.Absent) > 0:
		return check{name, levelFail, "the CRDs are older than this plugin: they lack " + some(found.Absent),
			"let a cluster admin install the CRDs of this version: " + install}
	case len(found.New) > 0:
		return check{name, levelWarn, "the CRDs are newer than this plugin, which does not know " + some(found.New), "install the plugin of their version"}
	}
	return ok(name, "%d kinds of %s are served, with the fields of this version", len(v1alpha1.Kinds), v1alpha1.GroupVersion)
}

func some(fields []string) string {
	if len(fields) <= shown {
		return strings.Join(fields, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(fields[:shown], ", "), len(fields)-shown)
}

func writeChecks(w io.Writer, style terminal.Style, checks []check) error {
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	var b strings.Builder
	for _, c := range checks {
		colour := map[level]func(string) string{levelOK: style.Good, levelWarn: style.Note, levelFail: style.Bad}[c.Level]
		fmt.Fprintf(&b, "%s  %-*s  %s\n", colour(fmt.Sprintf("%-4s", c.Level)), width, terminal.Clean(c.Name), terminal.Clean(c.Message))
		if c.Fix != "" {
			fmt.Fprintf(&b, "%s→ %s\n", strings.Repeat(" ", width+8), terminal.Clean(c.Fix))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
