package decision

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
)

// clientOf returns the subject of an OAuth client of a deployment, with permissions.
func clientOf(deployment string, permissions []string) *subject {
	entry := &snapshot.Entry{Deployment: deployment}
	made := &subject{principal: credential.NewClientPrincipal(entry, &document.Deployment{}, "client", "", "", permissions)}
	made.describe(identity{KeyID: "key", DeploymentID: "1"}, permissions, []byte("{}"))
	return made
}

func manyPermissions(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("orders:%03d:%080d", i, i))
	}
	return all
}

// TestLongPermissionsAreHeldOnceAndAnsweredWhole: the header and Envoy's fields contain a long list of permissions
// completely, as they do a short list.
func TestLongPermissionsAreHeldOnceAndAnsweredWhole(t *testing.T) {
	t.Parallel()
	names := manyPermissions(128)
	long := clientOf("ns/acme", names)
	header := http.Header{}
	long.writeIdentity(header)
	if got := header.Get(headerPermissions); !slices.Equal(strings.Split(got, ","), names) {
		t.Errorf("the header has %d permissions, want %d", strings.Count(got, ",")+1, len(names))
	}
	if !strings.Contains(string(long.envoyFields()), strings.Join(names, ",")) {
		t.Error("Envoy's fields lack the permissions")
	}
	if long.permissionList != nil || long.envoy != nil {
		t.Error("a long list is held more than once")
	}
	if short := clientOf("ns/acme", names[:2]); short.permissionList == nil || short.envoy == nil {
		t.Error("the headers of a short list are built for each response")
	}
}

// TestSubjectsOfOneDeploymentPushNoOthersOut: credentials with the most permissions stay within the bound of the cache,
// and another deployment's credentials remain cached.
func TestSubjectsOfOneDeploymentPushNoOthersOut(t *testing.T) {
	t.Parallel()
	const most = 8 << 20
	s, under := newDecisionCache(most), &snapshot.Snapshot{}
	digest := func(n uint64) (d apikey.Digest) {
		binary.LittleEndian.PutUint64(d[:], n)
		return d
	}
	for i := range uint64(100) {
		s.put(digest(i), clientOf("ns/other", []string{"*"}))
	}
	names := manyPermissions(128)
	for i := range uint64(1000) {
		s.put(digest(1000+i), clientOf("ns/large", names))
		if _, bytes := s.size(); bytes > most {
			t.Fatalf("%d bytes are held, the bound is %d", bytes, most)
		}
	}
	for i := range uint64(100) {
		if s.get(digest(i), under) == nil {
			t.Errorf("credential %d of the other deployment was forgotten", i)
		}
	}
}
