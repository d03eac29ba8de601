package enduser_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
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
		for range 200 {
			other.ok(http.StatusOK, "GET", "/Users", "")
		}
		select {
		case got := <-waiting: // it was slow, and did not wait
			t.Errorf("the status of a fifth request in progress is %d", got)
			waiting <- got
		default:
		}
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

// exec runs a statement in the store.
func (w *world) exec(statement string) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	_, err := db.ExecContext(w.T.Context(), statement)
	w.Must(err)
}

// The groups get their number of members by a statement: adding 100,000 users takes a minute, which
// TestBenchGroupsOfDirectories does.
func TestGroupsHaveAtMost100000Members(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		ann, bob, carl := g.adds("ann@globex.example"), g.adds("bob@globex.example"), g.adds("carl@globex.example")
		staff := g.group("Staff", ann)
		w.exec("UPDATE scim_groups SET member_count = 99999")
		add := func(users ...string) string {
			operations := ""
			for _, user := range users {
				operations += fmt.Sprintf(`,{"op":"add","path":"members","value":[{"value":%q}]}`, user)
			}
			return `{"Operations":[` + operations[1:] + `]}`
		}
		g.refused(http.StatusForbidden, "", "PATCH", "/Groups/"+staff, add(bob, carl))
		members := func() int { return w.count("SELECT COUNT(*) FROM scim_members") }
		if got := members(); got != 1 {
			t.Errorf("a refused PATCH leaves %d members", got)
		}
		g.ok(http.StatusOK, "PATCH", "/Groups/"+staff, add(bob))
		g.refused(http.StatusForbidden, "", "PATCH", "/Groups/"+staff, add(carl))
		g.ok(http.StatusOK, "PATCH", "/Groups/"+staff, add(ann)) // a member already
		g.ok(http.StatusOK, "PATCH", "/Groups/"+staff, fmt.Sprintf(`{"Operations":[{"op":"remove","path":"members[value eq \"%s\"]"},{"op":"add","path":"members","value":[{"value":%q}]}]}`, ann, carl))
		if got := members(); got != 2 {
			t.Errorf("%d members, want bob and carl", got)
		}
	})
}

func TestMembersBeyondTheSizeOfABodyChangeNothing(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		ann := g.adds("ann@globex.example")
		staff := g.group("Staff", ann)
		members := strings.Repeat(fmt.Sprintf(`,{"value":%q}`, ann), 100_000)[1:]
		g.refused(http.StatusRequestEntityTooLarge, "", "PATCH", "/Groups/"+staff, `{"Operations":[{"op":"replace","path":"members","value":[`+members+`]}]}`)
		g.refused(http.StatusRequestEntityTooLarge, "", "POST", "/Groups", `{"displayName":"Others","members":[`+members+`]}`)
		got := g.ok(http.StatusOK, "GET", "/Groups", "")
		group, _ := got["Resources"].([]any)[0].(map[string]any)
		if got["totalResults"] != 1.0 || group["displayName"] != "Staff" || len(group["members"].([]any)) != 1 {
			t.Errorf("%v", got)
		}
	})
}
