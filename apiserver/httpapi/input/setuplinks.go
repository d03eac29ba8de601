package input

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/store/people"
)

// intents are the intents of setup links.
var intents = []string{people.SetupSSO, people.SetupDomains, people.SetupDirectory}

// SetupLink reads a setup link to make.
func SetupLink(o *body.Object) connections.NewLink {
	l := connections.NewLink{Lifetime: connections.LinkLifetime}
	if o.Require("email") {
		l.Email = Email(o, "email")
	}
	if o.Require("intents") {
		l.Intents, _ = o.Strings("intents")
		slices.Sort(l.Intents)
		l.Intents = slices.Compact(l.Intents)
		if len(l.Intents) == 0 || slices.ContainsFunc(l.Intents, func(name string) bool { return !slices.Contains(intents, name) }) {
			o.Fault("intents", "must have at least one of sso, domains, directory")
		}
	}
	if sent, ok := o.Integer("expires_in"); ok {
		if l.Lifetime = time.Duration(sent) * time.Second; sent < 60 || sent > int64(connections.MaxLinkLifetime/time.Second) {
			o.Fault("expires_in", "must be a number of seconds from 60 to %d", int64(connections.MaxLinkLifetime/time.Second))
		}
	}
	return l
}
