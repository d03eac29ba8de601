package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// asks sends a GET that must succeed, and returns the body.
func asks[T any](t *testing.T, s served, path string) T {
	t.Helper()
	answer := s.send("GET", path, "")
	var body T
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || answer.Code != 200 {
		t.Fatalf("GET %s: %d %s", path, answer.Code, answer.Body)
	}
	return body
}

func TestListAuditPages(t *testing.T) {
	s := exampleWorld(t)
	for n := range 5 {
		err := s.rows.Change(context.Background(), exampleTenant, func(tx people.Tx) error {
			return tx.Records().RecordAudit(people.Audit{ID: int64(n + 1), At: exampleDay(1, n/2), Actor: "system", Action: "test." + strconv.Itoa(n), Object: "x:1", Session: 7})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var actions []string
	cursor, pages := "", 0
	for {
		page := asks[backendapi.AuditList](t, s, "/audit?limit=3&cursor="+cursor)
		for _, record := range page.Data {
			actions = append(actions, record.Action)
		}
		if pages++; !page.HasMore {
			break
		}
		cursor = *page.NextCursor
	}
	if want := []string{"user.updated", "organization.created", "test.4", "test.3", "test.2", "test.1", "test.0"}; !slices.Equal(actions, want) || pages != 3 {
		t.Errorf("%d pages: %v", pages, actions)
	}
	var forwards []string
	for cursor = ""; ; {
		page := asks[backendapi.AuditList](t, s, "/audit?order=asc&limit=3&cursor="+cursor)
		for _, record := range page.Data {
			forwards = append(forwards, record.Action)
		}
		if !page.HasMore {
			break
		}
		cursor = *page.NextCursor
	}
	if slices.Reverse(forwards); !slices.Equal(actions, forwards) {
		t.Errorf("the oldest first: %v", forwards)
	}
	for query, want := range map[string]int{
		"actor=system": 5, "actor=sys": 0, "action=test.3": 1, "object=x:1&action=test.0": 1, "object=x:2": 0, "since=2026-05-09T10:00:00Z": 2, "until=2026-05-09T10:00:00Z": 5,
		"since=2026-05-01T01:00:00%2B01:00&until=2026-05-01T01:00:00Z": 2, "since=2026-05-01T01:00:00+01:00&until=2026-05-01T01:00:00Z": 2,
	} {
		if got := asks[backendapi.AuditList](t, s, "/audit?"+query); len(got.Data) != want || got.NextCursor != nil {
			t.Errorf("%s: %d", query, len(got.Data))
		}
	}
	if got := asks[backendapi.AuditList](t, s, "/audit?action=test.0").Data[0]; *got.SessionId != "7" || got.At != exampleDay(1, 0) {
		t.Errorf("%+v", got)
	}
	for query, field := range map[string]string{
		"limit=0": "?limit", "since=yesterday": "?since", "until=1969-01-01T00:00:00Z": "?until", "cursor=x": "?cursor", "cursor=1-": "?cursor", "actor=a&actor=b": "?actor", "order=newest": "?order", "order=": "?order",
		"since=2026-05-09T10:00:00Z&until=2026-05-09T10:00:00Z": "?until",
	} {
		if answer := s.send("GET", "/audit?"+query, ""); answer.Code != 400 || !strings.Contains(answer.Body.String(), `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", query, answer.Code, answer.Body)
		}
	}
}

func TestListAuditByKeyID(t *testing.T) {
	s := keyWorld(t)
	key, _ := s.creates(t, "shop", `{"name":"Customer"}`)
	s.creates(t, "shop", `{"name":"Other"}`)
	for n, record := range []people.Audit{
		{Actor: "key:" + *key.KeyID, Action: "user.updated", Object: "user:1"},
		{Actor: "key:deleted00001", Action: "user.deleted", Object: "user:2"},
	} {
		record.ID, record.At = int64(n+1), time.Unix(1700000000, 0)
		if err := s.rows.Change(context.Background(), "ns/acme", func(tx people.Tx) error { return tx.Records().RecordAudit(record) }); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string][]string{
		key.ID: {"api_key.created", "user.updated"}, *key.KeyID: {"api_key.created", "user.updated"}, "deleted00001": {"user.deleted"}, "unknown00000": nil,
	} {
		var actions []string
		for _, record := range asks[backendapi.AuditList](t, s, "/audit?key_id="+id).Data {
			actions = append(actions, record.Action)
		}
		if !slices.Equal(actions, want) {
			t.Errorf("key_id=%s: %v, want %v", id, actions, want)
		}
	}
}

func TestOldestFirstOmitsRecordsOfLastMinute(t *testing.T) {
	var ahead atomic.Int64 // how far the server's clock is ahead, in nanoseconds
	began := time.Now()
	s := serveChanged(t, failing{}, nil, func(o *Options) { o.Clock = func() time.Time { return began.Add(time.Duration(ahead.Load())) } })
	record := func(id int64, ago time.Duration) {
		err := s.rows.Change(t.Context(), "ns/acme", func(tx people.Tx) error {
			return tx.Records().RecordAudit(people.Audit{ID: id, At: began.Add(-ago), Actor: "system", Action: "test." + strconv.FormatInt(id, 10), Object: "x:1"})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	listed := func(query string) (actions []string) {
		for _, record := range asks[backendapi.AuditList](t, s, "/audit?"+query).Data {
			actions = append(actions, record.Action)
		}
		return actions
	}
	until := "&until=" + began.Add(2*time.Minute).UTC().Format(time.RFC3339) // from a client whose clock is ahead
	record(1, 2*time.Minute)
	record(3, 10*time.Second)
	for _, query := range []string{"order=asc", "order=asc" + until} {
		if got := listed(query); !slices.Equal(got, []string{"test.1"}) {
			t.Errorf("%s: %v, want test.1", query, got)
		}
	}
	if got := listed("order=asc" + until + "&since=" + began.UTC().Format(time.RFC3339)); len(got) != 0 {
		t.Errorf("%v, want none yet", got)
	}
	if got := listed("x=y"); !slices.Equal(got, []string{"test.3", "test.1"}) {
		t.Errorf("the newest first: %v", got)
	}
	record(2, 20*time.Second) // a slower server adds it later
	ahead.Store(int64(time.Minute))
	last := strconv.FormatInt(began.Add(-2*time.Minute).UnixMicro(), 10) + "-1"
	if got := listed("order=asc" + until + "&cursor=" + last); !slices.Equal(got, []string{"test.2", "test.3"}) {
		t.Errorf("after the first: %v, want test.2, test.3", got)
	}
}

func TestSlowAuditSearchIsEnded(t *testing.T) {
	s := exampleWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := httptest.NewRequest("GET", "/audit", nil).WithContext(ctx)
	r.Header.Set("Authorization", "Bearer "+s.key)
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, r)
	if answer.Code != 503 || answer.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestDecisionsAreCountedByRule(t *testing.T) {
	s := exampleWorld(t)
	denied, deadline := 0, time.Now().Add(time.Minute)
	for denied == 0 { // the key's limit is 100 a second
		if answer := s.send("GET", "/api-auth/apps", ""); answer.Code == 429 {
			denied++
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was denied")
		}
	}
	var summary backendapi.DecisionSummary
	for { // until the limit admits the request
		answer := s.send("GET", "/decisions/summary", "")
		if answer.Code == 200 {
			if err := json.Unmarshal(answer.Body.Bytes(), &summary); err != nil {
				t.Fatal(err)
			}
			break
		}
		if denied++; time.Now().After(deadline) {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}
	internal := summary.Schemes[1].Rules[0]
	if len(summary.Schemes) != 2 || internal.Denied != int64(denied) || internal.Allowed < 101 || internal.Rule != "100/1s" || summary.Schemes[0].Rules[0].Allowed != 0 {
		t.Errorf("%d were denied: %+v", denied, summary)
	}
}

// away is a Kubernetes API that cannot be read.
type away struct {
	Kubernetes
	err error
}

func (a away) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.err
}

func TestListResourcesWithConditions(t *testing.T) {
	s := exampleWorld(t)
	all := asks[backendapi.ResourceList](t, s, "/resources")
	if all.Total != 22 || len(all.Data) != 22 || all.HasMore || all.Note != nil || all.Data[0].Kind != v1alpha1.KindIdentityDeployment {
		t.Fatalf("%+v", all)
	}
	var paged []backendapi.Resource
	for offset := 0; offset < 22; offset += 4 {
		page := asks[backendapi.ResourceList](t, s, "/resources?limit=4&offset="+strconv.Itoa(offset))
		if page.HasMore != (offset+4 < 22) {
			t.Errorf("at %d: more %v", offset, page.HasMore)
		}
		paged = append(paged, page.Data...)
	}
	if len(paged) != 22 {
		t.Errorf("%d by pages", len(paged))
	}
	for i, got := range paged {
		if want := all.Data[i]; got.Kind != want.Kind || got.Name != want.Name {
			t.Errorf("%d is %s %s, want %s %s", i, got.Kind, got.Name, want.Kind, want.Name)
		}
		if got.Conditions == nil || len(*got.Conditions) != 2 || *got.LiveGeneration != 1 || got.Plural == "" {
			t.Errorf("%+v", got)
		}
	}
	if answer := s.send("GET", "/resources?kind=Secret", ""); answer.Code != 400 || !strings.Contains(answer.Body.String(), "RateLimitScheme") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}

func TestListResourcesWithoutKubernetesAPI(t *testing.T) {
	gone := apierrors.NewNotFound(schemeResource, "x")
	for name, tc := range map[string]struct {
		err  error
		note string
	}{
		"out of reach": {errors.New("connection refused"), "is unavailable"}, "forbidden": {apierrors.NewForbidden(schemeResource, "x", nil), "forbids"}, "deleted": {gone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			list := asks[backendapi.ResourceList](t, serveWith(t, away{failing{}, tc.err}, nil), "/resources")
			if len(list.Data) != 5 || list.Data[0].Conditions != nil || list.Data[0].LiveGeneration != nil {
				t.Errorf("%+v", list)
			}
			if (list.Note != nil) != (tc.note != "") || list.Note != nil && !strings.Contains(*list.Note, tc.note) {
				t.Errorf("note %v", list.Note)
			}
		})
	}
}

// reads counts the reads of resources.
type reads struct {
	Kubernetes
	count atomic.Int64
}

func (r *reads) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	r.count.Add(1)
	return nil
}

func TestListResourcesReadsWithinShare(t *testing.T) {
	kubernetes, admitted := &reads{Kubernetes: failing{}}, NewLiveReads(func() time.Time { return time.Unix(0, 0) })
	var more []store.Document
	for n := range 95 {
		name := fmt.Sprint("app", n)
		more = append(more, fixed(t, "APIAuthApp", name, "uid-"+name, int64(100+n), name, time.Unix(1, 0), document.APIAuthApp{Slug: name}))
	}
	s := serveChanged(t, kubernetes, nil, func(o *Options) { o.LiveReads = admitted }, more...)
	var last backendapi.ResourceList
	for range 10 {
		last = asks[backendapi.ResourceList](t, s, "/resources?limit=100")
	}
	if len(last.Data) != 100 || last.Note == nil || !strings.Contains(*last.Note, "Too many") {
		t.Errorf("%d resources, note %v, want 100 and a note", len(last.Data), last.Note)
	}
	if got, want := kubernetes.count.Load(), int64(readBounds.DeploymentPerMinute); got > want || got < want/2 {
		t.Errorf("%d reads, want at most %d", got, want)
	}
	if admitted.Exhausted() != 4 {
		t.Errorf("%d pages were counted, want 4", admitted.Exhausted())
	}
	if done, err := admitted.begin(t.Context(), "ns/other"); err != nil {
		t.Errorf("another deployment: %v", err)
	} else {
		done()
	}
}

// renewed answers every Get with a resource of the same name that was created again.
type renewed struct{ Kubernetes }

func (renewed) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.SetUID("another")
	obj.(v1alpha1.Resource).CommonStatus().Conditions = []metav1.Condition{{Type: "Ready"}}
	return nil
}

func TestListResourcesOmitsConditionsOfRecreatedResource(t *testing.T) {
	for _, resource := range asks[backendapi.ResourceList](t, serveWith(t, renewed{failing{}}, nil), "/resources").Data {
		if resource.Conditions != nil {
			t.Errorf("%+v", resource)
		}
	}
}

func TestOrganizationsAreListed(t *testing.T) {
	s := exampleWorld(t)
	list := asks[backendapi.OrganizationList](t, s, "/organizations?search=ENGINES")
	if list.Total != 1 || list.Data[0].Name != "Analytical Engines" || list.Data[0].Members != 1 {
		t.Errorf("%+v", list)
	}
	if page := asks[backendapi.OrganizationList](t, s, "/organizations?limit=1"); page.Total != 2 || !page.HasMore || page.Data[0].Name != "Navy" {
		t.Errorf("%+v", page)
	}
}
