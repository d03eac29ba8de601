package enduser

import (
	"slices"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// maxListedKeys bounds a list of a user's keys, because backends may have created many keys for one user.
	maxListedKeys = 1000
	// maxKeyPermissions bounds the permissions of a key.
	maxKeyPermissions = 128
	// keysADay is how many keys a user may create per day. Deleted keys count too, because each creation writes an
	// audit record.
	keysADay = 100
	// keysScope is the scope of the counter of created keys.
	keysScope = "api-keys"
)

// listAPIKeys lists the keys that act for the user.
func listAPIKeys(c *call) (reply, error) {
	out := []enduserapi.OwnApiKey{}
	err := c.view(func(u *account.Unit) error {
		keys, err := u.APIKeys().ListAPIKeys(people.APIKeyFilter{Owner: c.signedIn().User}, maxListedKeys)
		for _, k := range keys {
			if k.RevokedAt.IsZero() {
				out = append(out, viewAPIKey(k))
			}
		}
		return err
	})
	return reply{data: out}, err
}

// keyWanted is a user's request for a key.
type keyWanted struct {
	people.APIKey
	app *snapshot.App
}

// addAPIKey creates a key that acts for the user. The key belongs to an app that lets users create keys.
func addAPIKey(c *call) (reply, error) {
	var wanted keyWanted
	if err := c.parse(func(o *body.Object) { wanted = readKey(c, o) }); err != nil {
		return reply{}, err
	}
	if wanted.app == nil {
		return reply{}, c.answerTo(errAppClosed)
	}
	return transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		if err := u.mayAddKey(user.ID, wanted.app); err != nil {
			return reply{}, err
		}
		asked := wanted.APIKey
		asked.Owner = user.ID
		k, secret, err := account.CreateKey(u.Unit, asked, wanted.app.EffectiveKeyPrefix())
		if err != nil {
			return reply{}, err
		}
		if err := u.Notify(user.ID, "An API key that acts for you was created: "+messages.Quoted(k.Name, "without a name")+"."); err != nil {
			return reply{}, err
		}
		return reply{data: enduserapi.OwnApiKeyWithSecret{Key: viewAPIKey(k), Secret: secret.Plain()}}, u.Audit("api_key.created", "api_key:"+format(k.ID))
	})
}

// readKey parses the body. An unknown app and an app that does not let users create keys are treated alike.
func readKey(c *call, o *body.Object) (k keyWanted) {
	k.App = required(o, "app_slug", func(o *body.Object, member string) string { slug, _ := o.String(member); return slug })
	if name := required(o, "name", input.Name); name != nil {
		k.Name = *name
	}
	k.Permissions, k.ExpiresAt = []string{}, input.Future(o, "expires_at", c.now)
	names, _ := o.Strings("permissions")
	if len(names) > maxKeyPermissions {
		o.Fault("permissions", "has %d entries: at most %d are allowed", len(names), maxKeyPermissions)
		return k
	}
	if k.app = c.request.SelfServiceApp(k.App); k.app == nil {
		return k
	}
	given := permission.NewSet(k.app.SelfService.Permissions)
	for i, name := range names {
		switch {
		case name == permission.All || !given.Allows(name) || !k.app.Ceiling.Allows(name):
			o.Fault("permissions/"+strconv.Itoa(i), "is not a permission that users may give to keys of this app")
		case !slices.Contains(k.Permissions, name):
			k.Permissions = append(k.Permissions, name)
		}
	}
	return k
}

// mayAddKey checks the limits on a user's keys.
func (u *unit) mayAddKey(user int64, app *snapshot.App) error {
	keys, err := u.APIKeys().ListAPIKeys(people.APIKeyFilter{App: app.Slug, Owner: user}, maxListedKeys)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k people.APIKey) bool { return !k.RevokedAt.IsZero() })
	if len(keys) >= app.SelfService.MaxKeysPerUser {
		return account.ErrTooManyKeys
	}
	made, err := u.Limits().Count(keysScope, format(user), u.Now, u.Now.Add(24*time.Hour))
	if err == nil && made.Count > keysADay {
		err = &account.WaitError{Reason: errKeysOften, Wait: made.Ends.Sub(u.Now)}
	}
	return err
}

// removeAPIKey deletes a key of the user. Unknown keys and keys of other users get the same response.
func removeAPIKey(c *call) (reply, error) {
	return transact(c, func(u *unit) (reply, error) {
		k, found, err := people.FindAPIKey(u.APIKeys(), c.r.PathValue("id"))
		if err == nil && found {
			k, found, err = u.APIKeys().LockAPIKey(k.ID)
		}
		if err == nil && (!found || k.Owner != u.signedIn().User || !k.RevokedAt.IsZero()) {
			err = account.ErrKeyUnknown
		}
		if err != nil {
			return reply{}, err
		}
		if _, err := u.APIKeys().DeleteAPIKey(k.ID); err != nil {
			return reply{}, err
		}
		u.Log(events.OfKey(events.APIKeyRevoked, k))
		return reply{data: viewAPIKey(k)}, u.Audit("api_key.deleted", "api_key:"+format(k.ID))
	})
}

func viewAPIKey(k people.APIKey) enduserapi.OwnApiKey {
	view := enduserapi.OwnApiKey{
		Id: format(k.ID), KeyId: people.KeyID(k.PublicID, k.ID), AppSlug: k.App, Name: k.Name, KeyPrefix: k.Prefix, KeySuffix: k.Suffix, Permissions: append([]string{}, k.Permissions...), CreatedAt: k.CreatedAt,
	}
	if ends := k.EndsAt(); !ends.IsZero() {
		view.ExpiresAt = &ends
	}
	if !k.LastUsedAt.IsZero() {
		view.LastUsedAt = &k.LastUsedAt
	}
	return view
}
