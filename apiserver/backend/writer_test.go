package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

var (
	errLost    = apierrors.NewConflict(schemeResource, "free", errors.New("another writer was first"))
	errRefused = apierrors.NewBadRequest("spec.slug is odd")
)

// send sends a request with the key, and returns the recorded response.
func (s served) send(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(path, "/imports/") {
		r.Header.Set("Content-Type", openapi.MediaTypeLines)
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

const freePath = "/api-auth/rate-limit-schemes/free"

func TestPatchRetriesAfterConflict(t *testing.T) {
	// The second read lacks the description that the first one had. A plan from the first read would omit that change,
	// as if it were already made.
	k := &fakeKubernetes{live: []string{resourceJSON("1", `,"description":"old"`), resourceJSON("2", "")}, patched: resourceJSON("3", `,"description":"old"`), errs: []error{errLost}}
	answer := serve(t, k).send("PATCH", freePath, `{"name":"Other","description":"old"}`)
	if answer.Code != 200 {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	if len(k.patches) != 2 {
		t.Fatalf("patches %q, want two", k.patches)
	}
	for i, want := range []string{
		`{"metadata":{"resourceVersion":"1","uid":"uid-5"},"spec":{"displayName":"Other"}}`,
		`{"metadata":{"resourceVersion":"2","uid":"uid-5"},"spec":{"description":"old","displayName":"Other"}}`,
	} {
		if k.patches[i] != want {
			t.Errorf("patch %d is %s, want %s", i, k.patches[i], want)
		}
	}
}

func TestResponsesShareNoBuffers(t *testing.T) {
	k := &fakeKubernetes{live: []string{resourceJSON("1", `,"description":"old","suspend":true`)}, patched: resourceJSON("2", "")}
	w := &writer{kubernetes: k}
	obj, changed, err := patch(context.Background(), w, keyOf("free"), edit[*v1alpha1.RateLimitScheme]{plan: func(*v1alpha1.RateLimitScheme) ([]change, error) {
		return []change{{field: "/description", path: "description"}}, nil
	}})
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if obj.Spec.Description != nil || obj.Spec.Suspend != nil || obj.ResourceVersion != "2" {
		t.Errorf("the result is %+v", obj.Spec)
	}
}

func TestPatchFailsAfterFiveConflicts(t *testing.T) {
	k := &fakeKubernetes{live: []string{resourceJSON("1", "")}, always: errLost}
	answer := serve(t, k).send("PATCH", freePath, `{"name":"Other"}`)
	if answer.Code != 409 || len(k.patches) != patchAttempts || !strings.Contains(answer.Body.String(), "read it and try again") {
		t.Errorf("%d after %d patches: %s", answer.Code, len(k.patches), answer.Body)
	}
}

func TestDeletionRetriesAfterConflict(t *testing.T) {
	k := &fakeKubernetes{live: []string{resourceJSON("1", "")}, errs: []error{errLost, errLost}, always: errRefused}
	answer := serve(t, k).send("DELETE", freePath, "")
	if k.deletes != 3 || answer.Code != 400 {
		t.Errorf("%d after %d deletions: %s", answer.Code, k.deletes, answer.Body)
	}
}

func TestDeletionIsPermittedOnDeletedVersion(t *testing.T) {
	declared := strings.Replace(resourceJSON("2", ""), `"metadata":{`, `"metadata":{"managedFields":[{"manager":"flux","fieldsV1":{"f:spec":{"f:rules":{}}}}],`, 1)
	k := &fakeKubernetes{live: []string{resourceJSON("1", ""), declared}, always: errLost}
	answer := serve(t, k).send("DELETE", freePath, "")
	if k.deletes != 1 || answer.Code != 409 || !strings.Contains(answer.Body.String(), `"manager":"flux"`) {
		t.Errorf("%d after %d deletions: %s", answer.Code, k.deletes, answer.Body)
	}
}

func TestKubernetesError(t *testing.T) {
	mine := apierror.New(http.StatusTeapot, "mine")
	for _, tc := range []struct {
		name       string
		err        error
		status     int
		message    string
		retryAfter bool
	}{
		{"a problem passes", mine, http.StatusTeapot, "mine", false},
		{"what another has", &refusal{v1alpha1.ReasonConflict, "slug x is held by y"}, 409, "slug x is held by y", false},
		{"superseded", &refusal{v1alpha1.ReasonSuperseded, "slug x is declared"}, 409, "slug x is declared", false},
		{"invalid", &refusal{v1alpha1.ReasonInvalid, "spec.rules"}, 400, "spec.rules", false},
		{"refused by the API server", errRefused, 400, "spec.slug is odd", false},
		{"refused by its schema", apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("RateLimitScheme").GroupKind(), "free", nil), 400, "is invalid", false},
		{"a conflict", errLost, 409, "read it and try again", false},
		{"forbidden", apierrors.NewForbidden(schemeResource, "free", errors.New("no")), 503, "rights", true},
		{"slow", context.DeadlineExceeded, 503, "the change may still be applied, so read before retrying", true},
		{"throttled", apierrors.NewTooManyRequests("later", 1), 503, "read before retrying", true},
		{"unreachable", errors.New("dial tcp: connection refused"), 503, "read before retrying", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			callTo(rec).Refuse(kubernetesError(tc.err))
			if rec.Code != tc.status || !strings.Contains(rec.Body.String(), tc.message) || (rec.Header().Get("Retry-After") != "") != tc.retryAfter {
				t.Errorf("%d, Retry-After %q: %s", rec.Code, rec.Header().Get("Retry-After"), rec.Body)
			}
			if strings.Contains(rec.Body.String(), "dial tcp") {
				t.Error("the cause was sent")
			}
		})
	}
	if kubernetesError(nil) != nil {
		t.Error("no error must stay none")
	}
}

func TestInvalidSlugIsNotReadFromKubernetes(t *testing.T) {
	backend := serve(t, failing{})
	for _, slug := range []string{"a%2Fb", "%00", "%2e%2e", "A", "a.b", strings.Repeat("a", 64), "%F0%9F%92%A9", "x%3Fy"} {
		for _, method := range []string{"GET", "PATCH", "DELETE"} {
			answer := backend.send(method, "/api-auth/rate-limit-schemes/"+slug, "{}")
			if answer.Code != 404 || !strings.Contains(answer.Body.String(), `"field":":slug"`) {
				t.Errorf("%s %s: %d %s", method, slug, answer.Code, answer.Body)
			}
		}
	}
}

func TestErrorsNameEveryRule(t *testing.T) {
	answer := serve(t, failing{}).send("POST", "/api-auth/rate-limit-schemes", `{"slug":"A","name":" ","rules":[{"unit":"week","duration":1,"max_requests":0}],"x":1}`)
	var refusal struct{ Errors []struct{ Field string } }
	if err := json.Unmarshal(answer.Body.Bytes(), &refusal); err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, e := range refusal.Errors {
		at = append(at, e.Field)
	}
	if got, want := strings.Join(at, " "), "/slug /name /rules/0/unit /rules/0/max_requests /x"; got != want || answer.Code != 400 {
		t.Errorf("%d, faults at %q, want %q", answer.Code, got, want)
	}
}

// callTo returns a call whose response goes to w.
func callTo(w http.ResponseWriter) *call {
	return &call{Exchange: httpapi.Exchange{Recorder: httpapi.Recorder{ResponseWriter: w}}, api: &API{}, r: httptest.NewRequest("PATCH", "/", nil)}
}
