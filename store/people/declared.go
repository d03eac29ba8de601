package people

import (
	"reflect"
	"slices"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// This file has the events of API keys and OAuth clients that resources declare. They follow from the documents before
// and after a change, so they are recorded in its transaction, whatever the cause: a new spec, a rotated Secret, or the
// end of a key's lifetime. The members of their data are those of package events.

// sourceDeclared is the source of a key or a client that a resource declares.
const sourceDeclared = "declared"

// DeclaredApp is the APIAuthApp or the OAuthApp of a declared key or client. It is zero if the app is gone.
type DeclaredApp struct {
	ID   int64
	Slug string
}

// declaredEvent is an event of a declared key or client.
type declaredEvent struct {
	what, subject string
	id            int64
	data          map[string]any
}

// declaredKinds make the events of the kinds that declare keys and clients.
var declaredKinds = map[string]func(ConfigurationChange, func(kind, name string) (DeclaredApp, error)) ([]declaredEvent, error){
	document.KindAPIKey: keyEvents, document.KindOAuthClient: clientEvents,
}

// DeclaresEvents reports whether changes of a kind of resources have events beside those of the resource, which need
// its content.
func DeclaresEvents(kind string) bool { return declaredKinds[kind] != nil }

// contents decodes the documents before and after a change. An earlier one that this version cannot read counts as
// none: it must not keep its successor from being written. It reports whether the later one, if there is one, is known.
func contents[C any](c ConfigurationChange) (before, after *C, known bool) {
	before, after = content[C](c.Before), content[C](c.After)
	return before, after, c.After == nil || after != nil
}

func content[C any](of *ConfigurationState) *C {
	if of == nil {
		return nil
	}
	decoded := new(C)
	if _, err := document.Decode(of.Payload, decoded); err != nil {
		return nil
	}
	return decoded
}

// replaced reports whether a change ends an entity and begins another one of the same name: their ids differ.
func (c ConfigurationChange) replaced() bool {
	return c.Before != nil && c.After != nil && c.Before.ID != c.After.ID
}

// newSpec reports whether a change is one of the resource's spec.
func (c ConfigurationChange) newSpec() bool {
	return c.Before != nil && c.After != nil && c.Before.Generation != c.After.Generation
}

// keyEvents returns the events of a declared API key.
func keyEvents(c ConfigurationChange, apps func(kind, name string) (DeclaredApp, error)) (list []declaredEvent, err error) {
	before, after, known := contents[document.APIKey](c)
	if !known {
		return nil, nil
	}
	log := func(what string, state *ConfigurationState, key *document.APIKey, changed ...string) {
		app, failed := apps(document.KindAPIAuthApp, key.App)
		if failed != nil {
			err = failed
			return
		}
		data := map[string]any{"source": sourceDeclared}
		if app.Slug != "" {
			data["app_slug"] = app.Slug
		}
		if len(key.Verifiers) > 0 {
			data["last4"] = key.Verifiers[0].Last4
		}
		if len(changed) > 0 {
			data["changed"] = changed
		}
		list = append(list, declaredEvent{what, "api_key", state.ID, data})
	}
	if before != nil && (after == nil || c.replaced()) {
		log("api_key.revoked", c.Before, before)
		before = nil
	}
	switch {
	case after == nil:
		return list, err
	case before == nil:
		log("api_key.created", c.After, after)
	default:
		if current(before.Verifiers) != current(after.Verifiers) {
			log("api_key.rotated", c.After, after)
		}
		if changed := changedMembers(before, after); c.newSpec() && len(changed) > 0 {
			log("api_key.updated", c.After, after, changed...)
		}
	}
	if after.Expired && (before == nil || !before.Expired) {
		log("api_key.expired", c.After, after)
	}
	return list, err
}

// current returns the public id of the current credential, "" for none.
func current(verifiers []document.Verifier) string {
	if len(verifiers) == 0 {
		return ""
	}
	return verifiers[0].ID
}

// changedMembers returns the names of the members of a declared key that changed, as the management API has them.
func changedMembers(before, after *document.APIKey) (changed []string) {
	for _, member := range []struct {
		name string
		same bool
	}{
		{"name", before.Name == after.Name},
		{"app_slug", before.App == after.App},
		{"permissions", slices.Equal(before.Permissions, after.Permissions)},
		{"allowed_cidrs", slices.Equal(before.AllowedCIDRs, after.AllowedCIDRs)},
		{"rate_limit_scheme_slug", before.Scheme == after.Scheme},
		{"expires_at", sameEnd(before.Verifiers, after.Verifiers)},
	} {
		if !member.same {
			changed = append(changed, member.name)
		}
	}
	return changed
}

// sameEnd reports whether the current credentials of two documents expire at the same time.
func sameEnd(before, after []document.Verifier) bool {
	if len(before) == 0 || len(after) == 0 {
		return len(before) == len(after)
	}
	one, other := before[0].ExpiresAt, after[0].ExpiresAt
	if one == nil || other == nil {
		return one == other
	}
	return one.Equal(*other)
}

// clientEvents returns the events of a declared OAuth client.
func clientEvents(c ConfigurationChange, apps func(kind, name string) (DeclaredApp, error)) (list []declaredEvent, err error) {
	before, after, known := contents[document.OAuthClient](c)
	if !known {
		return nil, nil
	}
	log := func(what string, state *ConfigurationState, client *document.OAuthClient) {
		app, failed := apps(document.KindOAuthApp, client.App)
		if failed != nil {
			err = failed
			return
		}
		data := map[string]any{"client_id": ids.Format(state.ID), "source": sourceDeclared}
		if app.ID != 0 {
			data["app_id"] = ids.Format(app.ID)
		}
		list = append(list, declaredEvent{what, "oauth_client", state.ID, data})
	}
	if before != nil && (after == nil || c.replaced()) {
		log("oauth.client.deleted", c.Before, before)
		before = nil
	}
	switch {
	case after == nil:
	case before == nil:
		log("oauth.client.created", c.After, after)
	default:
		if len(before.Verifiers) > 0 && len(after.Verifiers) > 0 && current(before.Verifiers) != current(after.Verifiers) {
			log("oauth.client.secret_rotated", c.After, after)
		}
		before.Verifiers, after.Verifiers = nil, nil
		if c.newSpec() && !reflect.DeepEqual(before, after) {
			log("oauth.client.updated", c.After, after)
		}
	}
	return list, err
}
