package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/process"
)

// awaitHealthy polls url until it answers 200, p ends, or ctx is done.
func awaitHealthy(ctx context.Context, p *process.Process, client *http.Client, url string) error {
	for {
		err := healthy(ctx, client, url)
		if err == nil {
			return nil
		}
		if ended := pause(ctx, p, readinessPause); ended != nil {
			return fmt.Errorf("%w; last answer: %w", ended, err)
		}
	}
}

func healthy(ctx context.Context, client *http.Client, url string) error {
	// A server that accepts a connection and does not answer must not hold up the next try.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, answer.Status, body)
	}
	return nil
}

// pause waits a moment for a process that is not ready yet. It fails when the process has ended or time is up.
func pause(ctx context.Context, p *process.Process, moment time.Duration) error {
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.Done():
		return p.ExitError()
	case <-ctx.Done():
		return fmt.Errorf("%s is not ready (%w); its log: %s", p.Name, ctx.Err(), p.LogPath)
	}
}

// childEnvironment is the environment of the control plane's processes. It leaves out the user's ETCD_ and KUBE
// variables, which would change the behavior of these processes.
func childEnvironment() []string {
	env := []string{}
	for _, name := range []string{"PATH", "HOME", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
