package decision

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/reference"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
)

// kind is the kind of a credential. It is part of the cache key, so that a cached credential is never found as one of
// another kind.
type kind uint8

const (
	kindAPIKey kind = iota
	kindSession
	kindAccessToken
)

var kindNames = [...]string{kindAPIKey: typeAPIKey, kindSession: typeSessionToken, kindAccessToken: typeAccessToken}

// String returns the kind's name in requests and responses.
func (k kind) String() string { return kindNames[k] }

// digest returns the cache key of a credential other than an API key. The cache key of an API key is the SHA-256 of its
// text, which contains no control character.
func (k kind) digest(text string) apikey.Digest {
	return sha256.Sum256([]byte("\x00" + k.String() + "\x00" + text))
}

// parseKinds parses names of kinds into a set of bits. It refuses unknown kinds.
func parseKinds(names []string) (set uint8, err error) {
	for _, name := range names {
		at := slices.Index(kindNames[:], name)
		if at < 0 {
			return 0, errors.New("must be " + strings.Join(kindNames[:], ", ") + " or several of them")
		}
		set |= 1 << at
	}
	return set, nil
}

// scope selects the credentials that a gateway or an application accepts. The zero scope accepts all deployments, apps
// and kinds.
type scope struct {
	deployment deployment
	// apps are slugs of APIAuthApps, for API keys, and of OAuthApps, for access tokens; empty means every app.
	apps []string
	// kinds has the bits of the accepted kinds; 0 means every kind.
	kinds uint8
}

// maxScopeApps is the largest number of apps that one request may name.
const maxScopeApps = 16

// admits reports whether an accepted credential is within the scope.
func (s *scope) admits(found *subject, of kind) bool {
	if s.kinds != 0 && s.kinds&(1<<of) == 0 {
		return false
	}
	if !s.deployment.none() && !s.deployment.is(found.principal.Deployment) {
		return false
	}
	return len(s.apps) == 0 || slices.Contains(s.apps, found.appSlug())
}

// appSlug returns the slug of a credential's app, "" for a session token, which has none.
func (s *subject) appSlug() string {
	if s.principal.App != nil {
		return s.principal.App.Key
	}
	return s.oauthApp
}

// deployment names an IdentityDeployment by its id or as "namespace/name". The zero deployment names none.
type deployment struct {
	id   int64
	name string
}

func (d deployment) none() bool { return d == deployment{} }

// is reports whether d names the deployment of an entry.
func (d deployment) is(e *snapshot.Entry) bool {
	return d.name == e.Deployment && d.name != "" || d.id == e.ID && d.id != 0
}

// maxDeploymentName is the length of the longest "namespace/name".
const maxDeploymentName = 63 + 1 + 63

// parseDeployment parses a deployment's id or "namespace/name".
func parseDeployment(text string) (deployment, error) {
	if namespace, name, found := strings.Cut(text, "/"); found {
		if validLabel(namespace) && validLabel(name) && len(text) <= maxDeploymentName {
			return deployment{name: text}, nil
		}
	} else if id, err := ids.Parse(text); err == nil {
		return deployment{id: id}, nil
	}
	return deployment{}, errors.New("must be a deployment's id, such as 4509453688918756309, or its namespace and name, such as apps/acme")
}

// validLabel reports whether a text only has characters of names of namespaces and resources.
func validLabel(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

const deploymentsPrefix = "/deployments/"

// cutDeployment splits /deployments/<id> or /deployments/<namespace>/<name> off the beginning of an escaped path. It
// returns the path unchanged if the path does not begin so, or if the listener does not serve the rest.
func cutDeployment(path string) (named deployment, prefix, rest string) {
	after, found := strings.CutPrefix(path, deploymentsPrefix)
	if !found {
		return deployment{}, "", path
	}
	end := strings.IndexByte(after, '/')
	for range 2 {
		if end < 0 {
			break
		}
		if named, err := parseDeployment(after[:end]); err == nil && routed(after[end:]) {
			return named, path[:len(deploymentsPrefix)+end], after[end:]
		}
		next := strings.IndexByte(after[end+1:], '/')
		if next < 0 {
			break
		}
		end += 1 + next
	}
	return deployment{}, "", path
}

// routed reports whether the listener serves a path.
func routed(path string) bool {
	_, found := handlers[path]
	return found || strings.HasPrefix(path, envoyPrefix+"/") || path == documentPath || path == reference.Page || strings.HasPrefix(path, reference.Assets)
}

// oneDeployment returns the deployment that the path and a parameter name. The error is a 400 about the parameter if
// both name different deployments.
func (a *API) oneDeployment(byPath, byParameter deployment, pointer string) (deployment, error) {
	switch {
	case byPath.none() || byPath == byParameter:
		return byParameter, nil
	case byParameter.none():
		return byPath, nil
	}
	// Either the path has an id and the parameter a name, or the reverse, or they name different deployments.
	name, id := byPath.name+byParameter.name, byPath.id+byParameter.id
	if entry, found := a.Snapshots.Current().Deployment(name); found && (byPath.id == 0 || byParameter.id == 0) && entry.ID == id {
		return byPath, nil
	}
	refused := apierror.New(http.StatusBadRequest, "")
	refused.Faults = []apierror.Fault{{Pointer: pointer, Message: "names a different deployment than the path does: send only one of the two"}}
	return deployment{}, refused
}

// errDeploymentRequired returns the refusal of a request that names no deployment although several are served.
func errDeploymentRequired() error {
	refused := apierror.New(http.StatusBadRequest,
		"several deployments are served here, and the request names none: put /deployments/<id> or /deployments/<namespace>/<name> before the path, or send the parameter deployment")
	refused.Code = "DEPLOYMENT_REQUIRED"
	return refused
}
