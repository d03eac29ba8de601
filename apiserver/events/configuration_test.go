package events

import (
	"slices"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// TestEventsOfResourcesHaveTheFormOfTheCatalogue: the store writes these events itself, in the transaction of the
// resource.
func TestEventsOfResourcesHaveTheFormOfTheCatalogue(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	if SourceDeclared != store.SourceDeclared || SourceHTTP != store.SourceHTTP {
		t.Error("the sources are other ones than those of the store")
	}
	for what, source := range map[Type]string{ConfigurationCreated: SourceDeclared, ConfigurationUpdated: SourceHTTP, ConfigurationDeleted: ""} {
		list, err := people.ConfigurationChange{
			Type: string(what), Deployment: "acme/main", ID: 7, Kind: "RateLimitScheme", Name: "shop", Generation: 3, Source: source,
		}.Events(at, nil)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		got := list[0]
		want, err := Event{Type: what, Subject: 7, Data: Data{Kind: "RateLimitScheme", Name: "shop", Generation: 3, Source: source}}.Log(at, "system")
		if err != nil || got != want {
			t.Errorf("%+v, want %+v: %v", got, want, err)
		}
		entry, _ := Find(what)
		if err := compiled(t, entry).Validate(dataOf(t, got)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestEventsOfDeclaredKeysAndClientsHaveTheFormOfTheCatalogue compares the events that the store makes with those that
// servers would make, for each change.
func TestEventsOfDeclaredKeysAndClientsHaveTheFormOfTheCatalogue(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	key := document.APIKey{App: "shop", Name: "shop", Verifiers: []document.Verifier{{ID: "one", Last4: "1111"}}}
	rotated, renamed, expired, ended := key, key, key, key
	rotated.Verifiers = []document.Verifier{{ID: "two", Last4: "2222"}, key.Verifiers[0]}
	renamed.Name, renamed.Permissions, renamed.AllowedCIDRs, renamed.Scheme = "other", []string{"a"}, []string{"10.0.0.0/8"}, "slow"
	expired.Expired = true
	until := at.Add(time.Hour)
	ended.Verifiers = []document.Verifier{{ID: "one", Last4: "1111", ExpiresAt: &until}}
	client := document.OAuthClient{App: "login", Name: "web", Verifiers: []document.Verifier{{ID: "one"}}}
	secret, inactive := client, client
	secret.Verifiers = []document.Verifier{{ID: "two"}, {ID: "one"}}
	inactive.Name = "other"
	ofKey := Data{App: "shop-api", Source: SourceDeclared, Last4: "1111"}
	next, members, end := ofKey, ofKey, ofKey
	next.Last4 = "2222"
	members.Changed = []string{"name", "permissions", "allowed_cidrs", "rate_limit_scheme_slug"}
	end.Changed = []string{"expires_at"}
	ofClient := Data{OAuthApp: 9, Client: "7", Source: SourceDeclared}
	event := func(what Type, data Data) Event { return Event{Type: what, Subject: 7, Data: data} }
	for name, test := range map[string]struct {
		kind          string
		before, after any
		sameSpec      bool
		want          []Event
	}{
		"a new key":                     {document.KindAPIKey, nil, key, false, []Event{event(APIKeyCreated, ofKey)}},
		"a new key that has expired":    {document.KindAPIKey, nil, expired, false, []Event{event(APIKeyCreated, ofKey), event(APIKeyExpired, ofKey)}},
		"a rotated key":                 {document.KindAPIKey, key, rotated, true, []Event{event(APIKeyRotated, next)}},
		"the end of an overlap":         {document.KindAPIKey, rotated, document.APIKey{App: "shop", Name: "shop", Verifiers: rotated.Verifiers[:1]}, true, nil},
		"a changed key":                 {document.KindAPIKey, key, renamed, false, []Event{event(APIKeyUpdated, members)}},
		"a content of another release":  {document.KindAPIKey, key, renamed, true, nil},
		"another end of a key":          {document.KindAPIKey, key, ended, false, []Event{event(APIKeyUpdated, end)}},
		"an expired key":                {document.KindAPIKey, key, expired, true, []Event{event(APIKeyExpired, ofKey)}},
		"an expired key, written again": {document.KindAPIKey, expired, expired, false, nil},
		"a prolonged key":               {document.KindAPIKey, expired, ended, false, []Event{event(APIKeyUpdated, end)}},
		"a deleted key":                 {document.KindAPIKey, key, nil, false, []Event{event(APIKeyRevoked, ofKey)}},
		"an unknown content":            {document.KindAPIKey, key, "unknown", false, nil},
		"a known one after an unknown":  {document.KindAPIKey, "unknown", key, false, []Event{event(APIKeyCreated, ofKey)}},
		"a new client":                  {document.KindOAuthClient, nil, client, false, []Event{event(OAuthClientCreated, ofClient)}},
		"a new secret":                  {document.KindOAuthClient, client, secret, true, []Event{event(OAuthClientRotated, ofClient)}},
		"a changed client":              {document.KindOAuthClient, client, inactive, false, []Event{event(OAuthClientUpdated, ofClient)}},
		"a deleted client":              {document.KindOAuthClient, client, nil, false, []Event{event(OAuthClientDeleted, ofClient)}},
	} {
		change := people.ConfigurationChange{Deployment: "acme/main", ID: 7, Kind: test.kind, Name: "shop", Before: state(t, test.before, 1), After: state(t, test.after, 2)}
		if test.sameSpec {
			change.After.Generation = 1
		}
		got, err := change.Events(at, func(kind, name string) (people.DeclaredApp, error) {
			return map[string]people.DeclaredApp{"APIAuthApp/shop": {ID: 8, Slug: "shop-api"}, "OAuthApp/login": {ID: 9, Slug: "login"}}[kind+"/"+name], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []people.LoggedEvent
		for _, e := range test.want {
			entry, _ := Find(e.Type)
			log, err := e.Log(at, "system")
			if err == nil {
				err = compiled(t, entry).Validate(dataOf(t, log))
			}
			if err != nil {
				t.Fatal(name, err)
			}
			want = append(want, log)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// state returns the document of a content, nil for none.
func state(t *testing.T, content any, generation int64) *people.ConfigurationState {
	t.Helper()
	if content == nil {
		return nil
	}
	payload, err := document.Encode(document.Meta{}, content)
	if err != nil {
		t.Fatal(err)
	}
	return &people.ConfigurationState{ID: 7, Generation: generation, Payload: payload}
}
