package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

// convergesWithin bounds how long every resource may take to become active once all processes are back.
const convergesWithin = time.Minute

// missing compares the install with the journal until no declared resource differs or the time is up. It returns the
// remaining differences, which are losses.
func (l *load) missing(ctx context.Context, within time.Duration) (lost []string, took time.Duration) {
	begin := time.Now()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		lost = append(l.unready(ctx), l.lostSchemes(ctx)...)
		if took = time.Since(begin); len(lost) == 0 || took > within {
			break
		}
		<-again.C
	}
	// Users and keys exist only in the store, and are active without a reconcile.
	lost = append(lost, l.lostKeys()...)
	lost = append(lost, l.lostPeople()...)
	return append(lost, l.miscounted()...), took
}

// unready returns the resources that are not Ready for their current generation.
func (l *load) unready(ctx context.Context) (faults []string) {
	out, err := l.Cluster.Kubectl(ctx, "", "get", "cardea", "-n", l.namespace, "-o", "json")
	if err != nil {
		return []string{fmt.Sprintf("%s: %s", err, out)}
	}
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Name       string
				Generation int64
			}
			Status struct {
				Conditions []struct {
					Type, Status, Message string
					ObservedGeneration    int64
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return []string{err.Error()}
	}
	for _, item := range list.Items {
		ready := false
		for _, c := range item.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True" && c.ObservedGeneration == item.Metadata.Generation
		}
		if !ready {
			faults = append(faults, fmt.Sprintf("%s %s is not Ready: %+v", item.Kind, item.Metadata.Name, item.Status.Conditions))
		}
	}
	return faults
}

// lostSchemes compares every scheme on both servers and in the Kubernetes API with the journal.
func (l *load) lostSchemes(ctx context.Context) (lost []string) {
	for i, server := range l.servers {
		for _, object := range append(l.objects("scheme"), l.objects("declared")...) {
			_, slug := split(object)
			found, known := limitOf(testkit.Do("GET", server.Backend+schemesPath+"/"+slug, l.key, ""))
			if !known {
				lost = append(lost, fmt.Sprintf("server-%d does not report %s", i, object))
				continue
			}
			lost = appendFault(lost, l.compare(object, found, fmt.Sprintf("on server-%d", i)))
		}
	}
	var list v1alpha1.RateLimitSchemeList
	if err := l.Cluster.Client.List(ctx, &list, client.InNamespace(l.namespace)); err != nil {
		return append(lost, err.Error())
	}
	live := map[string]string{}
	for _, scheme := range list.Items {
		if twice := live[string(scheme.Spec.Slug)]; twice != "" {
			lost = append(lost, fmt.Sprintf("scheme %s is there twice", scheme.Spec.Slug))
		}
		live[string(scheme.Spec.Slug)] = fmt.Sprint(scheme.Spec.Rules[0].MaxRequests)
	}
	for _, object := range append(l.objects("scheme"), l.objects("declared")...) {
		_, slug := split(object)
		lost = appendFault(lost, l.compare(object, live[slug], "in the Kubernetes API"))
		delete(live, slug)
	}
	for slug := range live {
		lost = append(lost, "no request created scheme "+slug)
	}
	return lost
}

// lostKeys compares every key on both servers with the journal.
func (l *load) lostKeys() (lost []string) {
	for i, server := range l.servers {
		for n, object := range l.objects("key") {
			_, secret := split(object)
			found, known := accepted(server, secret, network(n))
			if !known {
				lost = append(lost, fmt.Sprintf("server-%d does not decide about key %d, which may be one of %q", i, n, l.may[object]))
				continue
			}
			if fault := l.compare(object, found, ""); fault != "" {
				lost = append(lost, fmt.Sprintf("server-%d: a key is %q, which the journal rules out", i, found)) // the secret must not be logged
			}
		}
	}
	return lost
}

// lostPeople compares every account on both servers with the journal, and the sessions of the users in l.people.
func (l *load) lostPeople() (lost []string) {
	for i, server := range l.servers {
		for _, object := range l.objects("person") {
			_, email := split(object)
			answer, err := testkit.Do("GET", server.Backend+"/users?search="+url.QueryEscape(email), l.key, "")
			if err != nil || answer.Status != 200 {
				lost = append(lost, fmt.Sprintf("server-%d does not report %s: %d %v", i, object, answer.Status, err))
				continue
			}
			found := absent
			if list, _ := answer.JSON["data"].([]any); len(list) > 0 {
				found = strings.Repeat("there", len(list)) // two accounts match no state
			}
			lost = appendFault(lost, l.compare(object, found, fmt.Sprintf("on server-%d", i)))
		}
	}
	for range len(l.people) {
		p := <-l.people
		l.people <- p
		for i, server := range l.servers {
			answer, err := p.Send(server, "GET", "/me", "")
			lost = appendFault(lost, l.compare("session/"+p.Email, sessionOf(answer, err), fmt.Sprintf("on server-%d", i)))
		}
	}
	return lost
}

// miscounted compares the sign-ups in the analytics with the journal: each sign-up counts once.
func (l *load) miscounted() (lost []string) {
	least, most := l.count("person")
	for i, server := range l.servers {
		answer, err := testkit.Do("GET", fmt.Sprintf("%s/analytics?from=%s&to=%s", server.Backend, day(0), day(1)), l.key, "")
		if counted, ok := answer.JSON["signups"].(float64); err != nil || !ok || int(counted) < least || int(counted) > most {
			lost = append(lost, fmt.Sprintf("server-%d counts %v sign-ups, of %d to %d (%v)", i, answer.JSON["signups"], least, most, err))
		}
	}
	return lost
}

// day returns the time of one day ago for 0 and of one day from now for 1.
func day(n int) string { return time.Now().UTC().AddDate(0, 0, 2*n-1).Format(time.RFC3339) }

func appendFault(faults []string, fault string) []string {
	if fault == "" {
		return faults
	}
	return append(faults, fault)
}
