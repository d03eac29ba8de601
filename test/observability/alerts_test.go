// Package observability tests config/observability with promtool. Each alert fires under its fault and only then, has a
// section in docs/operations.md, and uses only metrics that are documented there. test/e2e checks that the dashboard's
// queries return series of real processes.
package observability

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/test/testkit"
)

var shipped = filepath.Join(testkit.Root(), "config", "observability")

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ruleSpec returns the spec of the PrometheusRule, which is also a valid rule file of Prometheus, and its rules.
func ruleSpec(t *testing.T) (spec json.RawMessage, rules []rule) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(shipped, "prometheus_rule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	var groups struct {
		Groups []struct{ Rules []rule }
	}
	if err := json.Unmarshal(object.Spec, &groups); err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		rules = append(rules, g.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("there are no rules")
	}
	return object.Spec, rules
}

// series is an input of promtool: a series with one sample per minute.
type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// scimSeries returns the name of a series of the requests of directories.
func scimSeries(resource, method, status string) string {
	return `cardea_scim_requests_total{job="cardea",deployment="acme/home",resource="` + resource + `",method="` + method + `",status="` + status + `"}`
}

// healthy are the series of a healthy install over two hours.
var healthy = []series{
	{`up{job="cardea",instance="a"}`, "1x120"},
	{`leader_election_master_status{job="cardea",instance="a"}`, "1x120"},
	{`leader_election_master_status{job="cardea",instance="b"}`, "0x120"},
	{`controller_runtime_reconcile_errors_total{job="cardea",controller="apikey"}`, "3x120"},
	{`cardea_snapshot_staleness_seconds{job="cardea",instance="a"}`, "0.4x120"},
	{`cardea_http_requests_total{job="cardea",listener="backend",status="200"}`, "0+6000x120"},
	{`cardea_http_requests_total{job="cardea",listener="backend",status="503"}`, "0+6x120"},
	{`cardea_http_request_duration_seconds_bucket{job="cardea",listener="backend",le="0.05"}`, "0+6000x120"},
	{`cardea_http_request_duration_seconds_bucket{job="cardea",listener="backend",le="5"}`, "0+6006x120"},
	{`cardea_http_request_duration_seconds_bucket{job="cardea",listener="backend",le="+Inf"}`, "0+6006x120"},
	{`cardea_decisions_total{job="cardea",outcome="allowed"}`, "0+6000x120"},
	{`cardea_decisions_total{job="cardea",outcome="unauthenticated"}`, "0+120x120"},
	{`cardea_decisions_total{job="cardea",outcome="unavailable"}`, "7x120"},
	{`cardea_ratelimit_shared_degraded{job="cardea",instance="a"}`, "0x120"},
	{`cardea_ratelimit_evicted_total{job="cardea",instance="a"}`, "0x120"},
	{`cardea_share_exhausted_total{job="cardea",instance="a",share="api_keys"}`, "0+1x120"},
	{`cardea_messages_total{job="cardea",deployment="acme/home",channel="sms",state="sent"}`, "0+60x120"},
	{`cardea_messages_total{job="cardea",deployment="acme/home",channel="sms",state="failed"}`, "2x120"},
	{`cardea_sms_budget_refusals_total{job="cardea",deployment="acme/home",region="US"}`, "0x120"},
	{`cardea_codes_compared_total{job="cardea",purpose="signin",result="right"}`, "0+60x120"},
	{`cardea_codes_compared_total{job="cardea",purpose="signin",result="wrong"}`, "0+30x120"},
	{`cardea_second_factors_total{job="cardea",method="totp",result="right"}`, "0+60x120"},
	{`cardea_second_factors_total{job="cardea",method="totp",result="wrong"}`, "0+1x120"},
	{`cardea_sso_total{job="cardea",deployment="acme/home",type="OIDC",outcome="signed_in"}`, "0+1x120"},
	{`cardea_sso_total{job="cardea",deployment="acme/home",type="OIDC",outcome="refused"}`, "0+1x120"},
	{`cardea_sso_failures_total{job="cardea",deployment="acme/home",type="OIDC",reason="provider"}`, "0+1x120"},
	{`cardea_sso_failures_total{job="cardea",deployment="acme/home",type="Google",reason="nonce"}`, "0+1x10 10x110"},
	{scimSeries("Users", "GET", "200"), "0+30x120"},
	{scimSeries("Users", "GET", "404"), "0+9x120"},
	{scimSeries("Users", "POST", "201"), "0+3x120"},
	{scimSeries("Users", "POST", "409"), "0+1x120"},
	{scimSeries("Groups", "PATCH", "204"), "0+1x120"},
	{`cardea_untrusted_forwarded_requests_total{job="cardea",listener="backend"}`, "0x120"},
	{`cardea_analytics_waiting_events{job="cardea",instance="a"}`, "500+10x120"},
	{`cardea_event_sequence_lag_seconds{job="cardea",instance="a"}`, "0.2x60 40 0.2x59"},
	{`cardea_webhook_failing_seconds{job="cardea",instance="a",deployment="acme/home",endpoint="crm"}`, "0+60x50 _x69"},
}

// faults are the faults that trigger each alert: series that replace the healthy ones with the same name and labels. ""
// removes the series.
var faults = map[string][]series{
	"CardeaAbsent":               {{`up{job="cardea",instance="a"}`, ""}},
	"CardeaDown":                 {{`up{job="cardea",instance="b"}`, "1x30 0x90"}},
	"CardeaNoLeader":             {{`leader_election_master_status{job="cardea",instance="a"}`, "1x30 0x90"}},
	"CardeaReconcileFails":       {{`controller_runtime_reconcile_errors_total{job="cardea",controller="apikey"}`, "0+2x120"}},
	"CardeaStale":                {{`cardea_snapshot_staleness_seconds{job="cardea",instance="a"}`, "0.4x30 60+60x90"}},
	"CardeaErrors":               {{`cardea_http_requests_total{job="cardea",listener="backend",status="503"}`, "0+600x120"}},
	"CardeaSlow":                 {{`cardea_http_request_duration_seconds_bucket{job="cardea",listener="backend",le="0.05"}`, "0+5000x120"}},
	"CardeaDecisionsUnavailable": {{`cardea_decisions_total{job="cardea",outcome="unavailable"}`, "0+60x120"}},
	"CardeaCredentialsRefused":   {{`cardea_decisions_total{job="cardea",outcome="unauthenticated"}`, "0+9000x120"}},
	"CardeaLimitsNotShared":      {{`cardea_ratelimit_shared_degraded{job="cardea",instance="a"}`, "1x120"}},
	"CardeaCountersEvicted":      {{`cardea_ratelimit_evicted_total{job="cardea",instance="a"}`, "0+5x120"}},
	"CardeaShareExhausted":       {{`cardea_share_exhausted_total{job="cardea",instance="a",share="api_keys"}`, "0+60x120"}},
	"CardeaMessagesFail":         {{`cardea_messages_total{job="cardea",deployment="acme/home",channel="sms",state="failed"}`, "0+3x120"}},
	"CardeaSMSBudgetUsedUp":      {{`cardea_sms_budget_refusals_total{job="cardea",deployment="acme/home",region="US"}`, "0+1x120"}},
	"CardeaCodesGuessed":         {{`cardea_codes_compared_total{job="cardea",purpose="signin",result="wrong"}`, "0+600x120"}},
	"CardeaSecondFactorsGuessed": {{`cardea_second_factors_total{job="cardea",method="totp",result="wrong"}`, "0+1x60 80+20x59"}},
	"CardeaConnectionFails":      {{`cardea_sso_total{job="cardea",deployment="acme/home",type="OIDC",outcome="signed_in"}`, "0+1x30 30x90"}},
	"CardeaDirectoryFails":       {{scimSeries("Users", "POST", "201"), "0+3x30 90x90"}, {scimSeries("Groups", "PATCH", "204"), ""}},
	"CardeaCertificateExpires":   {{`cardea_connection_certificate_expiry_timestamp_seconds{job="cardea",deployment="acme/home",connection="globex"}`, "864000+0x120"}},
	"CardeaProxyUntrusted":       {{`cardea_untrusted_forwarded_requests_total{job="cardea",listener="backend"}`, "0+9x120"}},
	"CardeaEventsUnsealed":       {{`cardea_analytics_waiting_events{job="cardea",instance="a"}`, "1500000+9000x120"}},
	"CardeaWebhookFails":         {{`cardea_webhook_failing_seconds{job="cardea",instance="a",deployment="acme/home",endpoint="crm"}`, "0+60x120"}},
	"CardeaWebhookDisabled":      {{`cardea_webhook_disabled{job="cardea",instance="a",deployment="acme/home",endpoint="crm"}`, "1x120"}},
	"CardeaEventsNotNumbered":    {{`cardea_event_sequence_lag_seconds{job="cardea",instance="a"}`, "0.2x30 60+60x90"}},
}

// under returns the series of the healthy install with a fault.
func under(fault []series) (all []series) {
	replaced := map[string]bool{}
	for _, f := range fault {
		replaced[f.Series] = true
		if f.Values != "" {
			all = append(all, f)
		}
	}
	for _, s := range healthy {
		if !replaced[s.Series] {
			all = append(all, s)
		}
	}
	return all
}

// promtool evaluates the rules over two hours of series, and expects only the given alert to fire, or none for "".
func promtool(t *testing.T, rules json.RawMessage, input []series, firing string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("install prometheus (hack/install-deps.sh does): %v", err)
	}
	samples := []map[string]any{}
	if firing != "" {
		samples = append(samples, map[string]any{"labels": `{alertname="` + firing + `"}`, "value": 1})
	}
	test := map[string]any{
		"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{
			"interval": "1m", "input_series": input,
			"promql_expr_test": []any{map[string]any{"expr": `group by (alertname) (ALERTS{alertstate="firing"})`, "eval_time": "118m", "exp_samples": samples}},
		}},
	}
	folder := t.TempDir()
	for name, content := range map[string]any{"rules.yaml": rules, "test.yaml": test} {
		raw, err := json.Marshal(content) // JSON is valid YAML
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), program, "test", "rules", "test.yaml")
	run.Dir = folder
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestEachAlertFiresUnderItsFaultAlone(t *testing.T) {
	t.Parallel()
	spec, rules := ruleSpec(t)
	t.Run("healthy", func(t *testing.T) {
		t.Parallel()
		promtool(t, spec, healthy, "")
	})
	t.Run("healthy, standalone", func(t *testing.T) { // a single process without leader election
		t.Parallel()
		promtool(t, spec, append(under([]series{{`leader_election_master_status{job="cardea",instance="a"}`, ""}, {`leader_election_master_status{job="cardea",instance="b"}`, ""}}),
			series{`controller_runtime_reconcile_total{job="cardea",instance="a",controller="apikey",result="success"}`, "0+1x120"},
			series{`cardea_snapshot_documents{job="cardea",instance="a"}`, "30x120"}), "")
	})
	for _, r := range rules {
		t.Run(r.Alert, func(t *testing.T) {
			t.Parallel()
			fault, known := faults[r.Alert]
			if !known {
				t.Fatal("faults has no entry for this alert")
			}
			promtool(t, spec, under(fault), r.Alert)
		})
	}
	if len(faults) != len(rules) {
		t.Errorf("%d faults for %d alerts", len(faults), len(rules))
	}
}

// Each alert has a severity, a summary and a description, and a runbook section that exists.
func TestEachAlertHasItsRunbook(t *testing.T) {
	t.Parallel()
	operations, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rules := ruleSpec(t)
	for _, r := range rules {
		if severity := r.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s: severity %q", r.Alert, severity)
		}
		if !strings.HasSuffix(r.Annotations["runbook_url"], "docs/operations.md#"+strings.ToLower(r.Alert)) || !strings.Contains(string(operations), "\n### "+r.Alert+"\n") {
			t.Errorf("%s: runbook %q", r.Alert, r.Annotations["runbook_url"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s says nothing", r.Alert)
		}
	}
}

var metric = regexp.MustCompile(`cardea_[a-z_]+`)

// docs/operations.md documents the metrics that alerts and dashboards use.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	operations, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(operations), "\n## Metrics\n")
	table, _, _ = strings.Cut(table, "\n## ")
	files, err := filepath.Glob(filepath.Join(shipped, "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, filepath.Join(shipped, "prometheus_rule.yaml")) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metric.FindAllString(string(raw), -1) {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				name = strings.TrimSuffix(name, suffix)
			}
			if !strings.Contains(table, "`"+name) {
				t.Errorf("%s: %s is not in the table of metrics", filepath.Base(file), name)
			}
		}
	}
}
