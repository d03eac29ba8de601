package directory

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/store/people"
)

// rows have one organization, or none if it is empty.
type rows string

func (r rows) View(_ context.Context, _ string, do func(people.Tx) error) error {
	return do(transaction{slug: string(r)})
}

type transaction struct {
	people.Tx
	slug string
}

func (t transaction) Organizations() people.Organizations { return organizations{slug: t.slug} }

type organizations struct {
	people.Organizations
	slug string
}

func (o organizations) OrganizationBySlug(slug string) (people.Organization, bool, error) {
	return people.Organization{Slug: slug}, slug == o.slug, nil
}

// lab is a manager over a cluster in memory, with a clock that the test sets.
type lab struct {
	*manager
	now time.Time
}

var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func newLab(objects ...client.Object) *lab {
	l := &lab{now: start}
	l.manager = newManager(Options{
		Client: fake.NewClientBuilder().WithObjects(objects...).Build(), Secrets: &objectwatch.Watch{}, Events: events.NewFakeRecorder(100), Rows: rows("globex"),
		Clock: func() time.Time { return l.now }, Random: rand.Reader,
	})
	return l
}

// pass prepares a directory of a deployment with hosts, and finishes as after a commit.
func (l *lab) pass(t *testing.T, d *v1alpha1.Directory, hosts ...v1alpha1.Hostname) (engine.Prepared, error) {
	t.Helper()
	deployment := &v1alpha1.IdentityDeployment{Spec: v1alpha1.IdentityDeploymentSpec{FrontendHosts: hosts}}
	p, err := l.prepare(t.Context(), engine.Preparation[*v1alpha1.Directory]{Object: d, ID: 7, Refs: engine.ResolvedRefs{"spec.deploymentRef": deployment}})
	if err == nil {
		if err := p.Committed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return p, err
}

// secret returns the data of a Secret, nil if there is none.
func (l *lab) secret(t *testing.T, name string) map[string]string {
	t.Helper()
	found, err := l.credentials.Secrets.Read(t.Context(), "ns", name)
	if err != nil {
		t.Fatal(err)
	}
	if found == nil {
		return nil
	}
	data := map[string]string{}
	for key, value := range found.Data {
		data[key] = string(value)
	}
	return data
}

func generated() *v1alpha1.Directory {
	d := &v1alpha1.Directory{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "staff", UID: "1"}}
	d.Spec.DeploymentRef.Name, d.Spec.Slug, d.Spec.Organization.Slug = "acme", "staff", "globex"
	d.Spec.SecretTemplate = &v1alpha1.SecretTemplate{}
	return d
}

func adopting(key *string) *v1alpha1.Directory {
	d := generated()
	d.Spec.SecretTemplate, d.Spec.ExistingSecretRef = nil, &v1alpha1.ExistingTokenReference{Name: "brought", Key: key}
	return d
}

func shown(p engine.Prepared) string {
	var texts []string
	for _, c := range p.Conditions {
		texts = append(texts, c.Type+"="+string(c.Status)+"/"+c.Reason)
	}
	return strings.Join(texts, " ")
}

const url = "https://id.acme.example/scim/v2/7"

func TestATokenIsIssuedRotatedAndRemoved(t *testing.T) {
	t.Parallel()
	l, d := newLab(), generated()
	d.Spec.Rotation = &v1alpha1.KeyRotation{EverySeconds: 3600, OverlapSeconds: ptr.To[int32](600)}
	p, err := l.pass(t, d, "id.acme.example", "login.acme.example")
	if err != nil {
		t.Fatal(err)
	}
	first := l.secret(t, "staff")
	token, err := apikey.Parse(first["scim-token"])
	if err != nil || token.Prefix() != "scim" || len(first) != 2 || first["scim-url"] != url {
		t.Fatalf("%v, %v", first, err)
	}
	verifiers := p.Value.([]document.Verifier)
	if len(verifiers) != 1 || verifiers[0].ID != token.ID() || !verifiers[0].Digest.Equal(token.Digest()) || p.Reserves[0] != reservation.SCIMToken(token.ID()) {
		t.Errorf("%+v, %v", verifiers, p.Reserves)
	}
	want := v1alpha1.DirectoryStatus{
		URL: url, TokenID: token.ID(), Last4: token.Last4(), SecretName: "staff",
		LastRotatedAt: ptr.To(metav1.NewTime(start)), NextRotationAt: ptr.To(metav1.NewTime(start.Add(time.Hour))),
	}
	if diff := cmp.Diff(want, d.Status); diff != "" {
		t.Error(diff)
	}
	if got := shown(p); got != "CredentialsReady=True/Issued Served=True/Serving" {
		t.Error(got)
	}
	l.now = start.Add(time.Hour)
	if p, err = l.pass(t, d, "id.acme.example"); err != nil {
		t.Fatal(err)
	}
	second := l.secret(t, "staff")
	if second["previous-scim-token"] != first["scim-token"] || second["scim-token"] == first["scim-token"] || second["scim-url"] != url || len(p.Reserves) != 2 {
		t.Errorf("during the overlap: %v, %v", second, p.Reserves)
	}
	l.now = l.now.Add(10 * time.Minute)
	if p, err = l.pass(t, d, "id.acme.example"); err != nil {
		t.Fatal(err)
	}
	if third := l.secret(t, "staff"); len(third) != 2 || third["scim-token"] != second["scim-token"] || len(p.Value.([]document.Verifier)) != 1 {
		t.Errorf("after the overlap: %v", third)
	}
	d.Spec.SecretTemplate.Name = ptr.To("renamed")
	if _, err = l.pass(t, d, "id.acme.example"); err != nil {
		t.Fatal(err)
	}
	if l.secret(t, "staff") != nil || l.secret(t, "renamed") == nil || d.Status.SecretName != "renamed" {
		t.Errorf("after a change of the name: %v", d.Status)
	}
	if err := l.cleanup(t.Context(), d); err != nil || l.secret(t, "renamed") != nil {
		t.Errorf("after the deletion: %v", err)
	}
}

func TestADirectoryWithoutHostsHasNoURL(t *testing.T) {
	t.Parallel()
	l, d := newLab(), generated()
	l.Rows = rows("")
	p, err := l.pass(t, d)
	if err != nil {
		t.Fatal(err)
	}
	if got := shown(p); got != "CredentialsReady=True/Issued Served=False/NoFrontendHost ReferencesResolved=False/OrganizationNotFound" {
		t.Error(got)
	}
	if data := l.secret(t, "staff"); len(data) != 1 || d.Status.URL != "" || p.RequeueAfter != time.Minute {
		t.Errorf("%v, %q, %v", data, d.Status.URL, p.RequeueAfter)
	}
	token := d.Status.TokenID
	for _, hosts := range [][]v1alpha1.Hostname{{"id.acme.example"}, {}} {
		if _, err := l.pass(t, d, hosts...); err != nil {
			t.Fatal(err)
		}
		if data := l.secret(t, "staff"); len(data) != 1+len(hosts) || d.Status.TokenID != token {
			t.Errorf("with hosts %v: %v", hosts, data)
		}
	}
}

func TestATokenIsAdopted(t *testing.T) {
	t.Parallel()
	mint := func(prefix string) string {
		minted, err := apikey.Mint(rand.Reader, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return minted.Plain()
	}
	own, foreign := mint("scim"), mint("ck")
	const advice = "use a token from `cardea key new --prefix scim`"
	for name, tc := range map[string]struct {
		data   map[string][]byte
		key    *string
		reason string
		says   string
	}{
		"a token":                 {data: map[string][]byte{"scim-token": []byte(own + "\n")}},
		"a token of another key":  {data: map[string][]byte{"token": []byte(own)}, key: ptr.To("token")},
		"no such key":             {data: map[string][]byte{"api-key": []byte(own)}, reason: v1alpha1.ReasonSecretNotFound, says: `there is no Secret "brought" with key "scim-token"`},
		"an API key":              {data: map[string][]byte{"scim-token": []byte(foreign)}, reason: v1alpha1.ReasonInvalidKey, says: advice},
		"a prefix that continues": {data: map[string][]byte{"scim-token": []byte(mint("scim_x"))}, reason: v1alpha1.ReasonInvalidKey, says: advice},
		"a typo":                  {data: map[string][]byte{"scim-token": []byte(own[:len(own)-1] + "!")}, reason: v1alpha1.ReasonInvalidKey, says: advice},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "brought"}, Data: tc.data})
			d := adopting(tc.key)
			p, err := l.pass(t, d, "id.acme.example")
			if d.Status.URL != url {
				t.Errorf("the URL must not wait for the Secret: %q", d.Status.URL)
			}
			if tc.reason != "" {
				if err == nil || !strings.Contains(err.Error(), tc.reason) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), own[:20]) {
					t.Errorf("got %v, want %s with %q", err, tc.reason, tc.says)
				}
				return
			}
			if err != nil || len(p.Value.([]document.Verifier)) != 1 || d.Status.SecretName != "brought" || d.Status.LastRotatedAt != nil || own[5:17] != d.Status.TokenID {
				t.Errorf("%+v, %v", d.Status, err)
			}
			if err := l.cleanup(t.Context(), d); err != nil || l.secret(t, "brought") == nil {
				t.Errorf("a Secret of the user is deleted: %v", err)
			}
		})
	}
}

// The last accepted content stays active while a Secret is missing, so an inactive directory must not wait for it.
func TestAnInactiveDirectoryNeedsNoSecret(t *testing.T) {
	t.Parallel()
	l, d := newLab(), adopting(nil)
	var waiting *engine.WaitingError
	if _, err := l.pass(t, d, "id.acme.example"); !errors.As(err, &waiting) {
		t.Fatalf("got %v, want a wait for the Secret", err)
	}
	d.Status.TokenID, d.Status.Last4, d.Status.SecretName = "abc", "wxyz", "brought"
	d.Spec.Active = ptr.To(false)
	p, err := l.pass(t, d, "id.acme.example")
	if err != nil || len(p.Value.([]document.Verifier)) != 0 || len(p.Reserves) != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if diff := cmp.Diff(v1alpha1.DirectoryStatus{URL: url}, d.Status); diff != "" {
		t.Error(diff)
	}
	if got := shown(p); got != "Served=False/Inactive" {
		t.Error(got)
	}
	// An inactive directory with a template still has its token, so that it can be handed over before its activation.
	d = generated()
	d.Spec.Active = ptr.To(false)
	if p, err := l.pass(t, d, "id.acme.example"); err != nil || len(p.Value.([]document.Verifier)) != 1 || l.secret(t, "staff")["scim-url"] != url {
		t.Errorf("%+v, %v", p, err)
	}
}
