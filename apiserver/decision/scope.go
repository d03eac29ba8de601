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

// kind is what a credential is. It is part of the key under which an accepted credential is remembered, so that a credential of one kind
// is never found as one of another.
type kind uint8

const (
	kindAPIKey kind = iota
	kindSession
	kindAccessToken
)

var kindNames = [...]string{kindAPIKey: typeAPIKey, kindSession: typeSessionToken, kindAccessToken: typeAccessToken}

// String returns the kind's name in requests and answers.
func (k kind) String() string { return kindNames[k] }

// digest returns the key under which a credential other than an API key is remembered. API keys are remembered by the SHA-256 of their
// text, which holds no control character.
func (k kind) digest(text string) apikey.Digest {
	return sha256.Sum256([]byte("\x00" + k.String() + "\x00" + text))
}

// parseKinds reads names of kinds into a set of bits; a kind that is not among them is refused.
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

// scope says whose credentials a gateway or an application accepts. The zero scope accepts those of every deployment, app and kind.
type scope struct {
	deployment deployment
	// apps are slugs of APIAuthApps, for API keys, and of OAuthApps, for access tokens; none: every app.
	apps []string
	// kinds has the bit of each kind that is accepted; 0: every kind.
	kinds uint8
}

// maxScopeApps is the largest number of apps that one request may name.
const maxScopeApps = 16

// admits reports whether an accepted credential is one of those that are meant.
func (s *scope) admits(found *subject, of kind) bool {
	if s.kinds != 0 && s.kinds&(1<<of) == 0 {
		return false
	}
	if !s.deployment.none() && !s.deployment.is(found.principal.Deployment) {
		return false
	}
	return len(s.apps) == 0 || slices.Contains(s.apps, found.appSlug())
}

// appSlug returns the slug of the app that a credential belongs to, "" for a session's token, which belongs to none.
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

// is reports whether the name is that of an entry.
func (d deployment) is(e *snapshot.Entry) bool {
	return d.name == e.Deployment && d.name != "" || d.id == e.ID && d.id != 0
}

// maxDeploymentName is the length of the longest "namespace/name".
const maxDeploymentName = 63 + 1 + 63

// parseDeployment reads a deployment's id or "namespace/name".
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

// validLabel reports whether text has the characters of a name of a namespace or of a resource.
func validLabel(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

const deploymentsPrefix = "/deployments/"

// cutDeployment splits /deployments/<id> or /deployments/<namespace>/<name> off the beginning of an escaped path. A path that does not
// begin so, or that goes on with something that is not served, is returned as it is.
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

// routed reports whether the listener has a path.
func routed(path string) bool {
	_, found := handlers[path]
	return found || strings.HasPrefix(path, envoyPrefix+"/") || path == documentPath || path == reference.Page || strings.HasPrefix(path, reference.Assets)
}

// oneDeployment returns the deployment that the path and a parameter name. The error is a 400 over the parameter, where both name one and
// they differ.
func (a *API) oneDeployment(byPath, byParameter deployment, pointer string) (deployment, error) {
	switch {
	case byPath.none() || byPath == byParameter:
		return byParameter, nil
	case byParameter.none():
		return byPath, nil
	}
	// One is an id and the other a name, or they differ.
	name, id := byPath.name+byParameter.name, byPath.id+byParameter.id
	if entry, found := a.Snapshots.Current().Deployment(name); found && (byPath.id == 0 || byParameter.id == 0) && entry.ID == id {
		return byPath, nil
	}
	refused := apierror.New(http.StatusBadRequest, "")
	refused.Faults = []apierror.Fault{{Pointer: pointer, Message: "names another deployment than the path: name one of them"}}
	return deployment{}, refused
}

// errDeploymentRequired refuses a decision that names no deployment where several are served.
func errDeploymentRequired() error {
	refused := apierror.New(http.StatusBadRequest,
		"several deployments are served here, and the request names none: put /deployments/<id> or /deployments/<namespace>/<name> before the path, or send deployment")
	refused.Code = "DEPLOYMENT_REQUIRED"
	return refused
}
