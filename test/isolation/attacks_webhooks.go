package isolation

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// hostileReceivers declares webhook endpoints whose receivers never answer, or do what a receiver can do to a client,
// and causes events. It deletes the endpoints at the end.
func (a *attack) hostileReceivers() error {
	manifests := ""
	for i, path := range append([]string{"silent"}, hostile...) {
		url := a.in.site.tools.URL + "/" + path
		if path == "silent" {
			url = fmt.Sprintf("http://127.0.0.1:%d/", a.in.site.silentPort())
		}
		for copies := range 3 {
			manifests += fmt.Sprintf(`---
apiVersion: iam.cardea.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: hostile-%d-%d, namespace: %s}
spec: {deploymentRef: {name: main}, url: %q, maxConcurrent: 64, timeoutSeconds: 30, ordering: None}
`, i, copies, a.Namespace, url)
		}
	}
	if err := a.Apply(a.ctx, manifests); err != nil {
		return err
	}
	before, inside := a.in.site.tools.hostile.Load(), a.in.site.tools.internal.Load()
	change := func(n int) {
		person := a.People[n%len(a.People)]
		_, _ = person.Send(a.Server(), http.MethodPatch, "/me", fmt.Sprintf(`{"first_name": "Name %d %d"}`, n, time.Now().UnixNano())) // some are refused
	}
	for n := 0; a.in.site.tools.hostile.Load() == before && a.ctx.Err() == nil; n++ { // until the endpoints are served
		change(n)
		pause := time.NewTimer(200 * time.Millisecond)
		select {
		case <-pause.C:
		case <-a.ctx.Done():
			pause.Stop()
		}
	}
	a.flood(50, change)
	if a.in.site.tools.hostile.Load() == before {
		a.breached(errors.New("no request reached a hostile receiver: the attack shows nothing"))
	}
	if a.in.site.tools.internal.Load() > inside {
		a.breached(errors.New("the redirection of a receiver was followed"))
	}
	return a.takeBack(&v1alpha1.WebhookEndpoint{})
}
