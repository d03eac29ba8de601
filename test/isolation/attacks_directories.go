package isolation

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/test/testkit"
)

// ownDirectories lets the organizations of a deployment set up directories, so that servers look tokens up in the
// store.
const ownDirectories = `  connections: {selfService: Enabled}
`

// directoryManifests are a Connection, which makes a domain the organization's, and a Directory of the organization.
const directoryManifests = `
apiVersion: iam.cardea.dev/v1alpha1
kind: Connection
metadata: {name: staff, namespace: %[1]s}
spec:
  deploymentRef: {name: main}
  slug: staff
  type: OIDC
  organization: {slug: %[2]s}
  domains: [%[1]s.example]
  client: {clientID: cardea, clientSecretRef: {name: provider, key: client-secret}}
  oidc: {issuer: "%[3]s/staff", endpoints: %[4]s}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: Directory
metadata: {name: staff, namespace: %[1]s}
spec:
  deploymentRef: {name: main}
  slug: staff
  organization: {slug: %[2]s}
  connectionRef: {name: staff}
  secretTemplate: {name: staff-scim}
`

// declareDirectory declares a directory of a new organization, and waits until a server serves it.
func (a *attack) declareDirectory() (d testkit.Provisioned, err error) {
	owner := a.Newcomer()
	if err := a.SignUp(owner); err != nil {
		return d, err
	}
	slug := ""
	err = testkit.Until(a.ctx, "the organization is not created", func() error {
		made, err := owner.Send(a.Server(), http.MethodPost, "/organizations", `{"name": "Staff"}`)
		data, _ := made.JSON["data"].(map[string]any)
		organization, _ := data["organization"].(map[string]any)
		slug, _ = organization["slug"].(string)
		return testkit.Fault(made, err)
	})
	if err != nil {
		return d, err
	}
	url := a.in.site.tools.URL
	if err := a.Apply(a.ctx, fmt.Sprintf(directoryManifests, a.Namespace, slug, url, fmt.Sprintf(endpointsOfProvider, url+"/staff"))); err != nil {
		return d, err
	}
	return d, testkit.Until(a.ctx, "the directory is not served", func() (err error) {
		if d, err = a.Cluster.Provisioned(a.ctx, a.Namespace, "staff-scim"); err != nil {
			return err
		}
		return testkit.Fault(d.Send(a.Server(), http.MethodGet, "/ServiceProviderConfig", ""))
	})
}

// members are the ids of users that the attack created, at most 2,000.
type members struct {
	mu  sync.Mutex
	ids []string
}

func (m *members) add(answer testkit.Answer, err error) {
	id, _ := answer.JSON["id"].(string)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && id != "" && len(m.ids) < 2000 {
		m.ids = append(m.ids, id)
	}
}

// first returns the id of the first user, "" for none.
func (m *members) first() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.ids) == 0 {
		return ""
	}
	return m.ids[0]
}

// values returns a text with every id by a format.
func (m *members) values(format string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]string, 0, len(m.ids))
	for _, id := range m.ids {
		all = append(all, fmt.Sprintf(format, id))
	}
	return strings.Join(all, ",")
}

// expensiveDirectory sends the largest and most expensive requests of a directory without a pause, wrong tokens, and
// its own token to others' hosts.
func (a *attack) expensiveDirectory() error {
	d, err := a.declareDirectory()
	if err != nil {
		return err
	}
	domain := a.Namespace + ".example"
	long := `{"schemas":["` + strings.Repeat(`x","`, 200<<10) + `y"]}`
	many := `{"Operations":[` + strings.Repeat(`{"op":"add","path":"nickName","value":"x"},`, 9999) + `{"op":"add","path":"nickName","value":"y"}]}`
	scan := "/Users?filter=" + strings.Repeat(`nickName+co+%22x%22+or+`, 20) + `displayName+co+%22q%22`
	var users members
	a.flood(400, func(n int) {
		server, wrong, foreign := a.Server(), d, d
		switch n % 8 {
		case 0, 1:
			padding := strings.Repeat("x", n%2*7<<10)
			users.add(d.Send(server, http.MethodPost, "/Users", fmt.Sprintf(`{"userName":"u%d@%s","nickName":%q}`, n, domain, padding)))
		case 2:
			_, _ = d.Send(server, http.MethodGet, scan, "")
		case 3:
			_, _ = d.Send(server, http.MethodPost, "/Groups", fmt.Sprintf(`{"displayName":"g%d","members":[%s]}`, n, users.values(`{"value":%q}`)))
		case 4:
			_, _ = d.Send(server, http.MethodPost, "/Users", long)
		case 5:
			_, _ = d.Send(server, http.MethodPatch, "/Users/"+users.first(), many)
		case 6:
			unknown, err := apikey.Mint(rand.Reader, document.DirectoryTokenPrefix)
			if err != nil {
				return
			}
			if wrong.Token = unknown.Plain(); n%16 == 6 { // no resource declares this directory: its token is looked up
				wrong.Path = "/scim/v2/1"
			}
			a.expectRefused(wrong.Send(server, http.MethodGet, "/Users", ""))
		default:
			foreign.Host = a.in.others[n/8%len(a.in.others)].Host
			a.expectRefused(foreign.Send(server, http.MethodGet, "/Users", ""))
		}
	})
	if len(users.ids) == 0 {
		a.breached(errors.New("no user was created: the attack shows nothing"))
	}
	return nil
}

// expectRefused records a response that accepts a token of no directory at the host.
func (a *attack) expectRefused(answer testkit.Answer, err error) {
	if err == nil && answer.Status < http.StatusBadRequest {
		a.breached(fmt.Errorf("a token of no directory at the host is accepted: %d %.300s", answer.Status, answer.Raw))
	}
}
