package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// checkConditions derives the state of the store, the root key and the operator from the conditions of the namespace's
// resources.
func (d *doctor) checkConditions(ctx context.Context, life string) []check {
	var all []v1alpha1.Resource
	for _, info := range v1alpha1.Kinds {
		found, err := d.list(ctx, info)
		if err != nil {
			return []check{{"store", levelWarn, "not known: " + err.Error(), "see your rights, above"}}
		}
		all = append(all, found...)
	}
	return evaluateConditions(d.namespace, all, life)
}

// evaluateConditions returns the checks that the conditions of a namespace's resources allow. life is the sign of life
// of a process that uses the store, "" for none.
func evaluateConditions(namespace string, all []v1alpha1.Resource, life string) []check {
	if len(all) == 0 {
		return []check{{"store", levelWarn, "not known: no resource of Cardea is in namespace " + namespace, "name a tenant's namespace with -n"}}
	}
	var storeless, keyless, unseen, unready []string
	for _, obj := range all {
		status := obj.CommonStatus()
		if status.ObservedGeneration < obj.GetGeneration() || len(status.Conditions) == 0 {
			unseen = append(unseen, obj.GetName())
		}
		for _, c := range status.Conditions {
			switch {
			case c.Reason == v1alpha1.ReasonStoreUnavailable && (c.Type == v1alpha1.ConditionSynced || c.Type == v1alpha1.ConditionDeleting):
				storeless = append(storeless, obj.GetName())
			case c.Reason == v1alpha1.ReasonRootKeyMissing && c.Type == v1alpha1.ConditionCredentialsReady:
				keyless = append(keyless, obj.GetName())
			case c.Type == v1alpha1.ConditionReady && c.Status != "True":
				unready = append(unready, obj.GetName())
			}
		}
	}
	checks := []check{ok("store", "no resource waits for it, and %s", life), ok("root key", "no resource in namespace %s waits for one", namespace)}
	if life == "" {
		checks[0] = check{"store", levelWarn, "no resource waits for it, but there is no sign that an operator runs that would report it",
			"see the line of the operator; a ready metrics listener in --metrics-url is also such a sign"}
	}
	if len(storeless) > 0 {
		checks[0] = check{"store", levelFail, "the operator cannot reach it: " + some(storeless) + " waits", "check the store and the operator's log"}
	}
	if len(keyless) > 0 {
		checks[1] = check{"root key", levelFail, "the operator has none: " + some(keyless) + " waits",
			"start operator and servers with --root-key, the same file"}
	}
	switch {
	case len(unseen) > 0:
		checks = append(checks, check{"resources", levelWarn, "the operator has not seen the present generation of " + some(unseen),
			"try again in a moment; if it stays, the operator does not run"})
	case len(unready) > 0:
		checks = append(checks, check{"resources", levelWarn, "not ready: " + some(unready), "kubectl cardea why -n " + namespace})
	default:
		checks = append(checks, ok("resources", "all %d of namespace %s are active", len(all), namespace))
	}
	return checks
}

// Gauges that are evaluated.
const (
	gaugeStaleness = "cardea_snapshot_staleness_seconds"
	gaugeDegraded  = "cardea_ratelimit_shared_degraded"
	gaugeWaiting   = "cardea_analytics_waiting_events"
	// stale is the lag from which the feed counts as stale, in seconds: a server normally follows within a second.
	stale = 5.0
)

// checkServers reads the metrics listeners in --metrics-url.
func (d *doctor) checkServers(ctx context.Context, running installed) []check {
	if len(d.metrics) == 0 {
		return []check{{"servers", levelWarn, "not checked: no server is named",
			"run kubectl -n " + d.system + " port-forward service/" + metricsService(running) + " 8090 in another terminal, and set --metrics-url http://127.0.0.1:8090"}}
	}
	asker := &http.Client{Timeout: d.timeout}
	var checks []check
	for _, address := range d.metrics {
		base, err := url.Parse(address)
		if err != nil || base.Host == "" {
			checks = append(checks, check{"server", levelFail, "--metrics-url is not a URL", "write it as http://host:8090"})
			continue
		}
		name := "server " + base.Host
		if status, _, err := fetch(ctx, asker, base.JoinPath("readyz").String()); err != nil || status != http.StatusOK {
			checks = append(checks, check{name, levelFail, "it is not ready: " + answered(status, err), "check its log: it waits for the store, or does not run"})
			continue
		}
		status, text, err := fetch(ctx, asker, base.JoinPath("metrics").String())
		if err != nil || status != http.StatusOK {
			checks = append(checks, check{name, levelWarn, "its metrics cannot be read: " + answered(status, err), "check whether this is its metrics listener"})
			continue
		}
		checks = append(checks, evaluateMetrics(name, readGauges(text))...)
	}
	return checks
}

// metricsService is the Service of the metrics listeners.
func metricsService(running installed) string {
	switch running.name {
	case standaloneName:
		return "cardea-standalone-metrics"
	case operatorName:
		return "cardea-server-metrics"
	}
	return "cardea-server-metrics (of standalone: cardea-standalone-metrics)"
}

func answered(status int, err error) string {
	if err != nil {
		return err.Error()
	}
	return "it responds " + strconv.Itoa(status)
}

func fetch(ctx context.Context, asker *http.Client, address string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := asker.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	return resp.StatusCode, string(body), err
}

// readGauges reads the evaluated metrics without labels from Prometheus' text format.
func readGauges(text string) map[string]float64 {
	found := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if !slices.Contains([]string{gaugeStaleness, gaugeDegraded, gaugeWaiting}, name) {
			continue
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			found[name] = number
		}
	}
	return found
}

func evaluateMetrics(name string, gauges map[string]float64) []check {
	lag, isServer := gauges[gaugeStaleness]
	if !isServer {
		return []check{ok(name, "ready; it is not a server, so it has no feed")}
	}
	checks := []check{ok(name, "ready; its configuration is at most %.1f s old", lag)}
	if lag > stale {
		checks[0] = check{name, levelFail, fmt.Sprintf("its configuration may be %.0f s old: it cannot reach the store", lag), "check the store, and its log"}
	}
	if gauges[gaugeDegraded] > 0 {
		checks = append(checks, check{name, levelWarn, "limits are not shared: Redis is unreachable", "check Redis; each server counts for itself until then"})
	}
	if waiting := gauges[gaugeWaiting]; waiting > 0 {
		checks = append(checks, ok(name, "%.0f events of analytics wait for their roll-up", waiting))
	}
	return checks
}
