package enduser_test

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// stalled is a request whose body is not complete.
type stalled struct {
	rest   *io.PipeWriter
	status chan int
}

// stalls begins a request that creates a user, and sends the first byte of its body.
func (d *directory) stalls() stalled {
	d.w.T.Helper()
	body, rest := io.Pipe()
	s := stalled{rest: rest, status: d.begins("POST", "/Users", body)}
	d.w.T.Cleanup(func() { _ = rest.Close() })
	if _, err := rest.Write([]byte("{")); err != nil {
		d.w.T.Fatal(err)
	}
	return s
}

// begins sends a request, whose status comes later; 0 for none.
func (d *directory) begins(method, path string, body io.Reader) chan int {
	d.w.T.Helper()
	r, err := http.NewRequestWithContext(d.w.T.Context(), method, d.w.Server.URL+"/scim/v2/"+d.id+path, body)
	d.w.Must(err)
	r.Host = d.host
	r.Header.Set("Authorization", "Bearer "+d.token)
	r.Header.Set("Content-Type", "application/scim+json")
	status := make(chan int, 1)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			status <- 0
			return
		}
		_, _ = io.Copy(io.Discard, response.Body) // only the status counts
		_ = response.Body.Close()
		status <- response.StatusCode
	}()
	return status
}

// waits begins a request that is not answered while another directory answers many times. It returns nil if the request
// was answered.
func (d *directory) waits(other *directory) chan int {
	d.w.T.Helper()
	status := d.begins("GET", "/ServiceProviderConfig", nil)
	for range 20 {
		other.ok(http.StatusOK, "GET", "/Users", "")
	}
	select {
	case got := <-status:
		if got != http.StatusOK {
			d.w.T.Fatalf("the status is %d", got)
		}
		return nil
	default:
		return status
	}
}

// A directory has at most four requests in progress. Further ones wait for these, and those of other directories do
// not.
func TestDirectoryHasAtMostFourRequestsInProgress(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		_, _, slug := w.customer("initech")
		other := w.directory("initech", slug, nil)
		var all []stalled
		for range 3 {
			all = append(all, g.stalls())
		}
		if got := <-g.begins("GET", "/ServiceProviderConfig", nil); got != http.StatusOK {
			t.Fatalf("beside three requests, the status is %d", got)
		}
		all = append(all, g.stalls())
		var waiting chan int
		w.Eventually("a fifth request waits", func() bool {
			w.Clock.Advance(time.Second) // the limit of requests a second is not reached
			waiting = g.waits(other)
			return waiting != nil
		})
		for _, one := range all {
			_, err := one.rest.Write([]byte("}"))
			w.Must(err)
			w.Must(one.rest.Close())
		}
		for _, one := range all {
			if got := <-one.status; got != http.StatusBadRequest {
				t.Errorf("a user without a name: the status is %d", got)
			}
		}
		if got := <-waiting; got != http.StatusOK {
			t.Errorf("the status of the request that waited is %d", got)
		}
	})
}
