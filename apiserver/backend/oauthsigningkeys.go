package backend

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
)

// listOAuthSigningKeys serves the public part of an app's present and previous signing keys.
func listOAuthSigningKeys(c *call) (reply, error) {
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	keys, err := c.signingKeys(app)
	return object(backendapi.OAuthSigningKeyList{Keys: keys}), err
}

// rotateOAuthSigningKeys asks the operator for new keys by the rotation annotation, and replies with the keys in
// effect.
func rotateOAuthSigningKeys(c *call) (reply, error) {
	app, err := findOAuthApp(c)
	if err != nil {
		return reply{}, err
	}
	before := currentKeys(app)
	if len(before) == 0 {
		return reply{}, apierror.New(http.StatusConflict, "the app has no signing keys: configure a frontend host in the deployment, and --root-key for the operator")
	}
	obj, err := askForKeys(c.r.Context(), c.api.writer, app, c.Received)
	if err != nil {
		return reply{}, err
	}
	c.auditWrite("oauth_app.signing_keys_rotated", "oauth_app:"+c.r.PathValue("oauth_app_slug"))
	synced, err := c.api.writer.await(c.r.Context(), obj, func(s *snapshot.Snapshot) bool {
		now, found := s.Get(app.Identity)
		return found && now.UID == app.UID && !slices.ContainsFunc(currentKeys(now), func(id string) bool { return slices.Contains(before, id) })
	}, func(v1alpha1.Resource) error { return nil })
	if err != nil {
		return reply{}, err
	}
	if now, found := c.api.Snapshots.Current().Get(app.Identity); found {
		app = now
	}
	keys, err := c.signingKeys(app)
	if err != nil {
		return reply{}, err
	}
	return object(backendapi.OAuthSigningKeysRotated{New: keys[0], Keys: keys}).inForce(synced), nil
}

// currentKeys returns the ids of the keys with which an app signs.
func currentKeys(app *snapshot.Entry) (current []string) {
	for _, key := range snapshot.ContentOf[document.OAuthApp](app).SigningKeys {
		if key.ExpiresAt == nil {
			current = append(current, key.ID)
		}
	}
	return current
}

// signingKeys returns the served form of an app's unexpired keys, signing keys first.
func (c *call) signingKeys(app *snapshot.Entry) ([]backendapi.OAuthSigningKey, error) {
	served := []backendapi.OAuthSigningKey{}
	for _, key := range snapshot.ContentOf[document.OAuthApp](app).SigningKeys {
		if key.ExpiresAt != nil && !c.Received.Before(*key.ExpiresAt) {
			continue
		}
		var public jose.JSONWebKey
		if err := public.UnmarshalJSON(key.Public); err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKIXPublicKey(public.Key)
		if err != nil {
			return nil, err
		}
		view := backendapi.OAuthSigningKey{
			Kid: key.ID, Algorithm: public.Algorithm, Status: backendapi.OAuthSigningKeyStatusActive, CreatedAt: key.CreatedAt, ExpiresAt: key.ExpiresAt,
			PublicKeyPem: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		}
		if key.ExpiresAt != nil {
			view.Status = backendapi.OAuthSigningKeyStatusRetired
		}
		served = append(served, view)
	}
	return served, nil
}

// askForKeys sets the annotation that asks the operator for new keys. The change is conditional on the intended app: an
// app that was created again under the name has its own keys.
func askForKeys(ctx context.Context, w *writer, app *snapshot.Entry, at time.Time) (*v1alpha1.OAuthApp, error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": app.UID, "annotations": map[string]string{v1alpha1.AnnotationRotateAt: at.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return nil, err
	}
	obj := &v1alpha1.OAuthApp{}
	obj.SetNamespace(app.Namespace)
	obj.SetName(app.Name)
	err = w.kubernetes.Patch(ctx, obj, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(v1alpha1.FieldManagerHTTP))
	if apierrors.IsNotFound(err) {
		return nil, noSuchOAuthApp()
	}
	return obj, kubernetesError(err)
}
