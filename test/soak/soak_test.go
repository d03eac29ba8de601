package soak

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/test/traffic"
)

const (
	// warmUp is the part of a run before the first measurement: caches fill, and statements are prepared.
	warmUp = 0.25
	// measurements is how many intervals the rest is divided into.
	measurements = 12
)

// TestInstallStaysLevel runs an install under the traffic of two tenants for CARDEA_SOAK_MINUTES. The report is written
// to the file CARDEA_SOAK_REPORT.
func TestInstallStaysLevel(t *testing.T) {
	length, err := strconv.ParseFloat(os.Getenv("CARDEA_SOAK_MINUTES"), 64)
	if err != nil || length <= 0 {
		t.Skip("CARDEA_SOAK_MINUTES says how long: make soak")
	}
	whole := time.Duration(length * float64(time.Minute))
	in, err := newInstall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.close(); err != nil {
			t.Error(err)
		}
	})
	tr := &traffic.Traffic{}
	ctx, stop := context.WithCancel(t.Context())
	for _, tenant := range in.tenants {
		if err := tr.Start(ctx, tenant); err != nil {
			t.Fatal(err)
		}
	}
	await(t, time.Duration(warmUp*float64(whole)))
	interval := (whole - time.Duration(warmUp*float64(whole))) / measurements
	measured, slow := in.watch(t, tr, interval)
	stop()
	tr.Wait()
	report := table(interval.Round(time.Second), measured, slow)
	t.Log("\n" + report)
	if file := os.Getenv("CARDEA_SOAK_REPORT"); file != "" {
		if err := os.WriteFile(file, []byte(report), 0o644); err != nil {
			t.Error(err)
		}
	}
	for _, fault := range drift(measured, slow) {
		t.Error(fault)
	}
}

// watch measures an install at the end of each interval.
func (in *install) watch(t *testing.T, tr *traffic.Traffic, interval time.Duration) (measured, slow minutes) {
	t.Helper()
	measured, slow = minutes{}, minutes{}
	tr.Take()
	before := in.rowsNow(t)
	for range measurements {
		await(t, interval)
		samples := tr.Take()
		for _, s := range samples {
			if s.Fault != nil {
				t.Errorf("a request failed: %s: %v", s.Kind, s.Fault)
			}
		}
		values, err := in.measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rows := in.rowsNow(t)
		values["requests a second"] = float64(len(samples)) / interval.Seconds()
		values["rows for 1,000 requests"] = (rows - before) * 1000 / float64(max(1, len(samples)))
		before = rows
		for name, value := range values {
			measured[name] = append(measured[name], value)
		}
		for kind, p99 := range traffic.Slowest(samples) {
			slow[kind] = append(slow[kind], float64(p99.Microseconds())/1000)
		}
	}
	return measured, slow
}

func (in *install) rowsNow(t *testing.T) float64 {
	t.Helper()
	rows, err := in.rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// await lets the traffic go on for a time.
func await(t *testing.T, of time.Duration) {
	t.Helper()
	select {
	case <-time.After(of):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
