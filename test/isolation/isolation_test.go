package isolation

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/test/traffic"
)

const (
	// shortly is how long each attack lasts in the short run.
	shortly = 2 * time.Second
	// preparation is how long the declarations of an attack may take before it begins.
	preparation = 2 * time.Minute
)

// TestAttacksOfOneDeployment runs every attack in turn during the normal traffic of two other deployments. Each attack
// lasts CARDEA_ISOLATION_SECONDS. If the variable is absent, the run is short, and its latencies mean nothing. The
// report is appended to the file CARDEA_ISOLATION_REPORT.
func TestAttacksOfOneDeployment(t *testing.T) {
	length, long := shortly, false
	if text := os.Getenv("CARDEA_ISOLATION_SECONDS"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds <= 0 {
			t.Fatalf("CARDEA_ISOLATION_SECONDS is %q: use a number above 0", text)
		}
		length, long = time.Duration(seconds)*time.Second, true
	}
	t.Run("with Redis", func(t *testing.T) { attackInstall(t, true, length, long) })
	if long {
		t.Run("without Redis", func(t *testing.T) { attackInstall(t, false, length, long) })
	}
}

// attackInstall runs every attack on a new install.
func attackInstall(t *testing.T, redis bool, length time.Duration, long bool) {
	in, err := newInstall(t.Context(), redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for name, tail := range in.Processes.LogTails(15) {
				t.Logf("%s:\n%s", name, tail)
			}
		}
		if err := in.close(); err != nil {
			t.Error(err)
		}
	})
	tr := &traffic.Traffic{}
	going, stop := context.WithCancel(t.Context())
	for _, other := range in.others {
		if err := tr.Start(going, other.Tenant); err != nil {
			t.Fatal(err)
		}
	}
	outcomes, calm := attackInTurn(t, in, tr, length, long)
	stop()
	tr.Wait()
	report := table(outcomes, calm)
	t.Log("\n" + report)
	if file := os.Getenv("CARDEA_ISOLATION_REPORT"); file != "" {
		appendTo(t, file, "### "+t.Name()+"\n\n"+report+"\n")
	}
}

// attackInTurn first measures the traffic without an attack, then runs each attack and checks its effect on the others.
func attackInTurn(t *testing.T, in *install, tr *traffic.Traffic, length time.Duration, long bool) (outcomes []outcome, calm map[string]time.Duration) {
	quiet, samples := during(t, in, tr, length, func(a *attack) error { a.begin(); <-a.ctx.Done(); return nil })
	quiet.name, calm = "(none)", traffic.Slowest(samples)
	quiet.compare(samples, nil)
	quiet.check(t, long)
	outcomes = append(outcomes, quiet)
	for _, of := range attacks {
		t.Run(of.name, func(t *testing.T) {
			o, samples := during(t, in, tr, length, of.make)
			o.name = of.name
			o.compare(samples, calm)
			outcomes = append(outcomes, o)
			o.check(t, long)
			if o.sent == 0 {
				t.Error("the attack sent nothing: it shows nothing")
			}
		})
	}
	return outcomes, calm
}

// during runs an attack for a length of time, which counts from its beginning: on a busy machine, its preparation may
// take longer than the attack. It returns the attack's outcome and the others' requests that began meanwhile.
func during(t *testing.T, in *install, tr *traffic.Traffic, length time.Duration, perform func(*attack) error) (o outcome, samples []traffic.Sample) {
	t.Helper()
	before := rowsOf(t, in)
	ctx, cancel := context.WithTimeout(t.Context(), preparation+length)
	defer cancel()
	a := &attack{tenant: in.attacker, ctx: ctx, begin: sync.OnceFunc(func() { time.AfterFunc(length, cancel) })}
	ended := make(chan error, 1)
	begun := time.Now()
	go func() { ended <- perform(a) }()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			if running = false; err != nil && (ctx.Err() == nil || a.sent.Load() == 0) {
				t.Errorf("the attack could not be made: %v", err)
			}
		case <-look.C:
		}
		resident, err := in.resident()
		if err != nil {
			t.Fatal(err)
		}
		o.resident = max(o.resident, resident)
	}
	if a.breach != nil {
		t.Error(a.breach)
	}
	// An operator that cannot renew its lease ends. Without another, all further attacks would fail as well.
	if err := in.revive(t.Context()); err != nil {
		t.Errorf("the operator ended meanwhile: %v", err)
	}
	if o.note = a.note; o.note != "" {
		t.Log(o.note)
	}
	if o.sent = a.sent.Load(); o.sent > 0 {
		o.rows = rowsOf(t, in) - before
	}
	return o, tr.Between(begun, time.Now())
}

func rowsOf(t *testing.T, in *install) int64 {
	t.Helper()
	count, err := in.rows(t.Context(), in.attacker.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// waited is the answer to a request whose password could not be checked within two seconds. It says how long the
// request waited for a processor: in the short run, which shares the machine with other tests, this is a latency.
const waited = "too many passwords are being checked at once"

// check fails the test if an attack affected other deployments. It does not check latencies, because attackers, servers
// and stores share one machine here. In the short run, one request in a hundred may have waited for a processor.
func (o *outcome) check(t *testing.T, long bool) {
	t.Helper()
	faults := o.faults
	if !long {
		faults = slices.DeleteFunc(slices.Clone(faults), func(fault string) bool { return strings.Contains(fault, waited) })
		if late := len(o.faults) - len(faults); late*100 > o.requests {
			faults = o.faults
		} else if late > 0 {
			t.Logf("%d of %d requests of others waited too long for a processor", late, o.requests)
		}
	}
	for _, fault := range faults[:min(len(faults), 5)] {
		t.Errorf("another deployment's request failed: %s", fault)
	}
	if o.requests == 0 {
		t.Error("no request of the others was sent meanwhile")
	}
	if o.resident >= maxResident {
		t.Errorf("a server holds %d MiB; the limit is %d", o.resident, maxResident)
	}
}

// appendTo adds text to a file.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(text)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
