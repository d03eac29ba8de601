package management

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// The longest texts of a line, in characters.
const (
	maxExternalID = 255
	maxPrefix     = 255
	maxSuffix     = 8
)

// line imports one line, and tells whether it was there already. What is wrong with it is an apierror.Error.
func (r *importRun) line(raw []byte) (present bool, err error) {
	if len(raw) > maxImportLine {
		return false, apierror.New(http.StatusBadRequest, "the line is longer than %d bytes", maxImportLine)
	}
	o, err := body.Parse(raw)
	if err != nil {
		return false, err
	}
	kind, externalID := requiredLine(o, "type", maxExternalID), requiredLine(o, "external_id", maxExternalID)
	if kind != "" && kind != people.ImportedAPIKey {
		return false, apierror.Invalid(apierror.Fault{Pointer: "/type", Message: "must be " + people.ImportedAPIKey})
	}
	if externalID == "" || kind == "" {
		return false, o.Err()
	}
	_, present, err = r.unit.ImportedAs(kind, externalID)
	if err != nil || present {
		return present, err
	}
	k, err := r.readKeyLine(o)
	if err != nil {
		return false, err
	}
	if k.ID, err = r.newID(); err != nil {
		return false, err
	}
	if err := r.unit.InsertAPIKey(k); err != nil {
		return false, err
	}
	return false, r.unit.RecordImported(kind, externalID, k.ID)
}

// readKeyLine reads a line of type api_key.
func (r *importRun) readKeyLine(o *body.Object) (people.APIKey, error) {
	k := people.APIKey{CreatedAt: r.Now, UpdatedAt: r.Now}
	app := r.readApp(o)
	if o.Require("name") {
		if name := input.Name(o, "name"); name != nil {
			k.Name = *name
		}
	}
	if o.Require("sha256") {
		if digits, ok := o.String("sha256"); ok {
			raw, err := hex.DecodeString(digits)
			if err != nil || len(raw) != len(k.Digest) {
				o.Fault("sha256", "must be 64 hexadecimal digits")
			}
			copy(k.Digest[:], raw)
		}
	}
	k.Prefix, k.Suffix = optionalLine(o, "prefix", maxPrefix), optionalLine(o, "suffix", maxSuffix)
	ceiling := permission.Set{}
	if app != nil {
		k.App, ceiling = app.Slug, app.Ceiling
	}
	if !o.IsNull("permissions") {
		k.Permissions, _ = readKeyPermissions(o, ceiling, k.App)
	}
	k.Metadata, _ = readMetadata(o)
	k.ExpiresAt = input.Future(o, "expires_at", time.Time{}) // one that is over is imported, and dead
	if !k.ExpiresAt.IsZero() && k.ExpiresAt.Unix() < 1 {
		o.Fault("expires_at", "must be after 1970 began")
	}
	r.readCreatedAt(o, &k)
	k.Scheme = r.readLineScheme(o)
	if err := r.readReferences(o, &k); err != nil {
		return k, err
	}
	o.Close()
	if err := o.Err(); err != nil {
		return k, err
	}
	if err := r.c.mayGrant(k.Permissions, ceiling); err != nil && k.Owner == 0 {
		return k, err
	}
	if err := r.unit.BindKey(&k); err != nil {
		return k, unboundLine(err)
	}
	taken, err := r.unit.DigestTaken(k.Digest)
	if err == nil && taken {
		err = apierror.Invalid(apierror.Fault{Pointer: "/sha256", Message: "is that of a key that is here already"})
	}
	return k, err
}

func (r *importRun) readApp(o *body.Object) *snapshot.App {
	slug, ok := "", false
	if o.Require("app") {
		slug, ok = o.String("app")
	}
	if !ok {
		return nil
	}
	entry, found := r.c.snapshot.BySlug(v1alpha1.KindAPIAuthApp, r.c.tenant(), slug)
	if !found {
		o.Fault("app", "is the slug of no app of the deployment: create it first")
		return nil
	}
	return snapshot.ContentOf[snapshot.App](entry)
}

// readCreatedAt reads when a key was made: from 1970 on, and a minute ahead at most.
func (r *importRun) readCreatedAt(o *body.Object, k *people.APIKey) {
	at := input.Future(o, "created_at", time.Time{})
	if at.IsZero() {
		return
	}
	if at.Unix() < 0 || at.After(r.Now.Add(time.Minute)) {
		o.Fault("created_at", "must be in 1970 or later, and not in the future")
	}
	k.CreatedAt = at
}

func (r *importRun) readLineScheme(o *body.Object) string {
	slug := optionalLine(o, "rate_limit_scheme", maxExternalID)
	if slug == "" {
		return ""
	}
	if _, found := r.c.snapshot.BySlug(v1alpha1.KindRateLimitScheme, r.c.tenant(), slug); !found {
		o.Fault("rate_limit_scheme", "is the slug of no rate-limit scheme of the deployment: create it first")
	}
	return slug
}

// readReferences reads what a key is bound to: the external ids of lines that were imported.
func (r *importRun) readReferences(o *body.Object, k *people.APIKey) error {
	for _, reference := range []struct {
		kind string
		to   *int64
	}{{"user", &k.Owner}, {"organization", &k.Organization}, {"workspace", &k.Workspace}} {
		externalID := optionalLine(o, reference.kind, maxExternalID)
		if externalID == "" {
			continue
		}
		id, found, err := r.unit.ImportedAs(reference.kind, externalID)
		if err != nil {
			return err
		}
		if !found {
			o.Fault(reference.kind, "is the external_id of no %s that was imported: put its line before this one", reference.kind)
		}
		*reference.to = id
	}
	if (o.Has("organization") && !o.IsNull("organization") || o.Has("workspace") && !o.IsNull("workspace")) && (!o.Has("user") || o.IsNull("user")) {
		o.Fault("user", "is required with organization and workspace: the key may do what that member may")
	}
	return nil
}

// unboundLine is unboundKey in the words of a line.
func unboundLine(err error) error {
	switch {
	case errors.Is(err, account.ErrUserUnknown):
		return apierror.Invalid(apierror.Fault{Pointer: "/user", Message: "was deleted since it was imported"})
	case errors.Is(err, account.ErrNotMember):
		return apierror.Invalid(apierror.Fault{Pointer: "/user", Message: "is no member of the organization"})
	case errors.Is(err, account.ErrWorkspaceUnknown):
		return apierror.Invalid(apierror.Fault{Pointer: "/workspace", Message: "is none of the organization that the user is a member of"})
	}
	return err
}

// requiredLine reads a text on one line that must be there, "" if it is faulty.
func requiredLine(o *body.Object, member string, most int) string {
	if !o.Require(member) {
		return ""
	}
	value := optionalLine(o, member, most)
	if value == "" && !o.Faulty(member) {
		o.Fault(member, "must not be empty")
	}
	return value
}

// optionalLine reads a text on one line, "" if it is absent, null or faulty.
func optionalLine(o *body.Object, member string, most int) string {
	if o.IsNull(member) {
		return ""
	}
	value, _ := o.String(member)
	switch {
	case utf8.RuneCountInString(value) > most:
		o.Fault(member, "is longer than %d characters", most)
	case strings.ContainsFunc(value, func(r rune) bool { return text.Forbidden(r) || r == '\u2028' || r == '\u2029' }):
		o.Fault(member, "contains a character that is not allowed")
	default:
		return value
	}
	return ""
}
