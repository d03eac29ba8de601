package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// ofHome makes a put one of the deployment home, which is declared.
func ofHome(put store.Put) store.Put {
	put.Deployment, put.Source = home, store.SourceDeclared
	return put
}

// declareHome puts the document of the deployment home, without an event.
func declareHome(e *env) store.Put {
	e.t.Helper()
	put := putOf("home", "u", 1)
	put.Kind, put.Namespace, put.Name, put.Deployment = "IdentityDeployment", "apps", "main", home
	e.put(put)
	return put
}

// configurationEvents numbers the events of the deployment home, and returns those after a number.
func configurationEvents(e *env, after int64) (list []people.LoggedEvent) {
	e.t.Helper()
	e.change(home, numberEvents)
	e.view(home, func(tx people.Tx) (err error) { list, err = tx.EventLog().EventsAfter(after, 100); return err })
	for i := range list {
		list[i].ID, list[i].At = 0, born
	}
	return list
}

// happened returns the event with a number of a put.
func happened(sequence int64, what string, put store.Put) people.LoggedEvent {
	list, _ := people.ConfigurationChange{
		Type: what, Deployment: put.Deployment, ID: put.ID, Kind: put.Kind, Name: put.Name, Generation: put.Generation, Source: put.Source,
	}.Events(born, nil)
	list[0].Sequence = sequence
	return list[0]
}

// declares makes a put one of a kind with a content, in the namespace of the deployment home.
func declares(put store.Put, kind, key string, content any) store.Put {
	put = ofHome(put)
	put.Kind, put.Namespace, put.Key = kind, "apps", key
	raw, _ := json.Marshal(content)
	put.Hash = string(raw)
	put.Payload, _ = document.Encode(document.Meta{}, content)
	return put
}

// typesWith returns the types of events with their data.
func typesWith(list []people.LoggedEvent) (found []string) {
	for _, e := range list {
		if e.SubjectType != people.SubjectConfiguration {
			found = append(found, e.Type+" "+e.SubjectType+" "+e.SubjectID+" "+e.Data)
		}
	}
	return found
}

var configurationStories = []story{
	{name: "a change of a resource has one event, with its commit", run: func(e *env) {
		e.begin()
		declareHome(e)
		first := ofHome(putOf("a", "u1", 1, "slug/a"))
		e.put(first)
		e.Expect(configurationEvents(e, 0)).To(gomega.Equal([]people.LoggedEvent{happened(1, people.ConfigurationCreated, first)}))
		e.put(again(first, "u1"))
		another := again(first, "u1")
		another.Hash, another.Payload = "another", []byte(`{"another":1}`)
		e.put(another)
		e.Expect(configurationEvents(e, 1)).To(gomega.BeEmpty(), "another content of the same generation")

		second := again(ofHome(putOf("a", "u1", 2, "slug/a")), "u1")
		second.Source = store.SourceHTTP
		e.put(second)
		newLife := again(ofHome(putOf("a", "u2", 1, "slug/a")), "u1")
		e.put(newLife)
		unseen := again(ofHome(putOf("a", "u2", 2, "slug/a")), "u2")
		unseen.Source = ""
		e.put(unseen)
		e.ok(e.store.Retain(e.ctx, e.term, newLife.Owner))
		e.ok(e.store.Delete(e.ctx, e.term, newLife.Owner))
		e.ok(e.store.Delete(e.ctx, e.term, newLife.Owner))
		e.Expect(configurationEvents(e, 1)).To(gomega.Equal([]people.LoggedEvent{
			happened(2, people.ConfigurationUpdated, second), happened(3, people.ConfigurationUpdated, newLife), happened(4, people.ConfigurationDeleted, unseen),
		}))
	}},
	{name: "a refused or fenced write has no event, and a displaced document has that of its deletion", run: func(e *env) {
		e.begin()
		declareHome(e)
		holder := ofHome(putOf("a", "u1", 1, "slug/a"))
		e.put(holder)
		taker := ofHome(putOf("b", "u2", 1, "slug/a"))
		_, err := e.store.Put(e.ctx, e.term, taker)
		e.Expect(err).To(gomega.HaveOccurred())
		before := e.term
		e.begin()
		_, err = e.store.Put(e.ctx, before, again(ofHome(putOf("a", "u1", 2, "slug/a")), "u1"))
		e.fails(err, store.ErrFenced)
		e.fails(e.store.Delete(e.ctx, before, holder.Owner), store.ErrFenced)
		taker.Displace = []store.Owner{holder.Owner}
		e.put(taker)
		holder.Source = ""
		e.Expect(configurationEvents(e, 1)).To(gomega.Equal([]people.LoggedEvent{
			happened(2, people.ConfigurationDeleted, holder), happened(3, people.ConfigurationCreated, taker),
		}))
	}},
	{name: "declared API keys and OAuth clients have events of their own, also of another content of the same generation", run: func(e *env) {
		e.begin()
		declareHome(e)
		e.put(declares(putOf("shop", "u1", 1), document.KindAPIAuthApp, "shop-api", document.APIAuthApp{Slug: "shop-api"}))
		app := declares(putOf("login", "u2", 1), document.KindOAuthApp, "login", document.OAuthApp{Slug: "login"})
		e.put(app)
		content := document.APIKey{App: "shop", Name: "shop", Verifiers: []document.Verifier{{ID: "one", Last4: "1111"}}}
		key := declares(putOf("key", "u3", 1), document.KindAPIKey, "", content)
		e.put(key)
		content.Verifiers = []document.Verifier{{ID: "two", Last4: "2222"}, {ID: "one", Last4: "1111"}}
		e.put(again(declares(putOf("key", "u3", 1), document.KindAPIKey, "", content), "u3"))
		e.put(again(declares(putOf("key", "u3", 1), document.KindAPIKey, "", content), "u3"))
		content.Name, content.Verifiers = "other", content.Verifiers[:1]
		e.put(again(declares(putOf("key", "u3", 2), document.KindAPIKey, "", content), "u3"))
		content.Expired = true
		e.put(again(declares(putOf("key", "u3", 2), document.KindAPIKey, "", content), "u3"))
		client := declares(putOf("web", "u4", 1), document.KindOAuthClient, "", document.OAuthClient{App: "login"})
		e.put(client)
		e.ok(e.store.Delete(e.ctx, e.term, key.Owner))
		e.ok(e.store.Delete(e.ctx, e.term, app.Owner))
		e.ok(e.store.Delete(e.ctx, e.term, client.Owner))
		of := ` api_key ` + ids.Format(key.ID) + ` {"app_slug":"shop-api",`
		ofClient := ` oauth_client ` + ids.Format(client.ID) + ` {`
		e.Expect(typesWith(configurationEvents(e, 0))).To(gomega.Equal([]string{
			`api_key.created` + of + `"last4":"1111","source":"declared"}`, `api_key.rotated` + of + `"last4":"2222","source":"declared"}`,
			`api_key.updated` + of + `"changed":["name"],"last4":"2222","source":"declared"}`, `api_key.expired` + of + `"last4":"2222","source":"declared"}`,
			`oauth.client.created` + ofClient + `"app_id":"` + ids.Format(app.ID) + `","client_id":"` + ids.Format(client.ID) + `","source":"declared"}`,
			`api_key.revoked` + of + `"last4":"2222","source":"declared"}`,
			`oauth.client.deleted` + ofClient + `"client_id":"` + ids.Format(client.ID) + `","source":"declared"}`,
		}))
	}},
	{name: "resources that were written before their deployment have their events with its creation", run: func(e *env) {
		e.begin()
		app, key := putOf("shop", "u1", 1), putOf("key", "u2", 1)
		app = declares(app, document.KindAPIAuthApp, "shop-api", document.APIAuthApp{Slug: "shop-api"})
		key = declares(key, document.KindAPIKey, "", document.APIKey{App: "shop", Name: "shop", Verifiers: []document.Verifier{{ID: "one", Last4: "1111"}}})
		e.put(key)
		e.put(app)
		other := declares(putOf("foreign", "u3", 1), document.KindAPIAuthApp, "foreign", document.APIAuthApp{Slug: "foreign"})
		other.Deployment = "apps/other"
		e.put(other)
		e.Expect(configurationEvents(e, 0)).To(gomega.BeEmpty())
		main := ofHome(putOf("home", "u", 1))
		main.Kind, main.Namespace, main.Name = document.KindIdentityDeployment, "apps", "main"
		e.put(main)
		list := configurationEvents(e, 0)
		e.Expect(typesWith(list)).To(gomega.Equal([]string{
			`api_key.created api_key ` + ids.Format(key.ID) + ` {"app_slug":"shop-api","last4":"1111","source":"declared"}`,
		}))
		e.Expect(slices.DeleteFunc(list, func(l people.LoggedEvent) bool { return l.SubjectType != people.SubjectConfiguration })).To(gomega.Equal([]people.LoggedEvent{
			happened(1, people.ConfigurationCreated, app), happened(2, people.ConfigurationCreated, key), happened(4, people.ConfigurationCreated, main),
		}))
		e.put(again(main, "u"))
		e.Expect(configurationEvents(e, 4)).To(gomega.BeEmpty())
	}},
	{name: "resources that are written at once with their deployments have one event each", run: func(e *env) {
		e.begin()
		const each = 30
		var writing sync.WaitGroup
		put := func(put store.Put) {
			_, err := e.store.Put(e.ctx, e.term, put)
			e.ok(err)
		}
		for _, name := range []string{"main", "other"} {
			of := "apps/" + name
			var begin sync.WaitGroup
			begin.Add(each / 2)
			for n := range each {
				writing.Go(func() {
					resource := declares(putOf(fmt.Sprintf("%s-%d", name, n), "u", 1), document.KindAPIAuthApp, fmt.Sprintf("%s-%d", name, n), document.APIAuthApp{})
					resource.Deployment = of
					put(resource)
					if n < each/2 {
						begin.Done()
					}
					resource.Generation, resource.Hash = 2, "another"
					put(again(resource, "u"))
				})
			}
			writing.Go(func() {
				begin.Wait() // half of the resources are there
				deployment := ofHome(putOf("home", "u", 1))
				deployment.Kind, deployment.Namespace, deployment.Name, deployment.Deployment = document.KindIdentityDeployment, "apps", name, of
				put(deployment)
			})
		}
		writing.Wait()
		for _, of := range []string{"apps/main", "apps/other"} {
			e.change(of, func(tx people.Tx) error { _, err := tx.EventLog().NumberEvents(1_000); return err })
			created, last := map[string]int{}, map[string]int64{}
			e.view(of, func(tx people.Tx) error {
				list, err := tx.EventLog().EventsAfter(0, 1_000)
				for _, l := range list {
					var data struct {
						Name       string
						Generation int64
					}
					e.ok(json.Unmarshal([]byte(l.Data), &data))
					if last[data.Name] = data.Generation; l.Type == people.ConfigurationCreated {
						created[data.Name]++
					}
				}
				return err
			})
			e.Expect(created).To(gomega.HaveLen(each + 1))
			for name, n := range created {
				e.Expect(n).To(gomega.Equal(1), name)
				e.Expect(last[name] == 2 || !strings.Contains(name, "-")).To(gomega.BeTrue(), "the last event of %s has the generation %d", name, last[name])
			}
		}
	}},
	{name: "a deployment has the events of many resources that were written before it", run: func(e *env) {
		e.begin()
		for n := range 1_203 {
			e.put(declares(putOf(fmt.Sprintf("r%d", n), "u", 1), document.KindAPIAuthApp, fmt.Sprintf("app-%d", n), document.APIAuthApp{}))
		}
		main := ofHome(putOf("home", "u", 1))
		main.Kind, main.Namespace, main.Name = document.KindIdentityDeployment, "apps", "main"
		e.put(main)
		resources := map[string]bool{}
		e.change(home, func(tx people.Tx) error { _, err := tx.EventLog().NumberEvents(2_000); return err })
		e.view(home, func(tx people.Tx) error {
			list, err := tx.EventLog().EventsAfter(0, 2_000)
			for _, l := range list {
				resources[l.Data] = true
			}
			return err
		})
		e.Expect(resources).To(gomega.HaveLen(1_204))
	}},
	{name: "resources of a deployment without a document leave no events", run: func(e *env) {
		e.begin()
		orphan := ofHome(putOf("a", "u1", 1))
		e.put(orphan)
		deployment := declareHome(e)
		e.put(again(ofHome(putOf("a", "u1", 2)), "u1"))
		e.ok(e.store.Delete(e.ctx, e.term, deployment.Owner))
		e.ok(e.store.Delete(e.ctx, e.term, orphan.Owner))
		list := configurationEvents(e, 0)
		e.Expect(list).To(gomega.HaveLen(1))
		e.Expect(list[0].Type).To(gomega.Equal(people.ConfigurationUpdated))
	}},
}
