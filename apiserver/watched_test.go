package apiserver

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/management"
	"github.com/cardea-iam/cardea/apiserver/outage"
)

// answering is a Kubernetes API that answers every creation alike.
type answering struct {
	management.Kubernetes
	err error
}

func (a *answering) Create(context.Context, client.Object, ...client.CreateOption) error {
	return a.err
}

func TestCHAOS9OnlyWhatDoesNotAnswerIsOut(t *testing.T) {
	reviews := schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}
	var lines []string
	api := &answering{}
	w := watched{api: api, watch: outage.New("the Kubernetes API", funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))}
	for _, step := range []struct {
		what  string
		err   error
		away  bool
		lines int
	}{
		{"it answers", nil, false, 0},
		{"it refuses", apierrors.NewForbidden(reviews, "", errors.New("no")), false, 0},
		{"another writer was first", apierrors.NewConflict(reviews, "", errors.New("changed")), false, 0},
		{"nobody is there", errors.New("connection refused"), true, 1},
		{"it fails", apierrors.NewInternalError(errors.New("etcd")), true, 1},
		{"it has too much to do", apierrors.NewTooManyRequests("later", 1), true, 1},
		{"it takes too long", context.DeadlineExceeded, true, 1},
		{"it answers again", apierrors.NewNotFound(reviews, ""), false, 2},
	} {
		api.err = step.err
		err := w.Create(context.Background(), &authenticationv1.TokenReview{})
		if errors.Is(err, outage.ErrAway) != step.away || step.err != nil && !errors.Is(err, step.err) {
			t.Errorf("%s: %v", step.what, err)
		}
		if len(lines) != step.lines {
			t.Errorf("%s: %d lines, want %d: %s", step.what, len(lines), step.lines, strings.Join(lines, "\n"))
		}
	}
}
