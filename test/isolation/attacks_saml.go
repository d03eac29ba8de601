package isolation

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
	"github.com/cardea-iam/cardea/test/testkit"
	"github.com/cardea-iam/cardea/test/traffic"
)

// samlManifest declares a connection of type SAML: %[1]s is the namespace, %[2]s the name, %[3]s the metadata's URL.
const samlManifest = `---
apiVersion: iam.cardea.dev/v1alpha1
kind: Connection
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  deploymentRef: {name: main}
  slug: %[2]s
  type: SAML
  saml: {metadataURL: "%[3]s"}
`

// samlConnection is the connection whose provider sends responses. Of the others, the metadata are hostile.
const samlConnection = "saml"

// hostileMetadata are the other connections, with the paths that their metadata have in turn.
var hostileMetadata = []struct {
	name  string
	paths []string
}{
	{"saml-0", []string{"certificates", "attributes", "elements", "beyond"}},
	{"saml-1", []string{"attributes", "elements", "beyond", "certificates"}},
	{"saml-endless", []string{"endless", "slow-body", "huge", "bomb", "slow-header"}},
}

// maxUnfinished is how many unfinished forms are open.
const maxUnfinished = 16

// samlAttack is the attacker's identity provider of SAML.
type samlAttack struct {
	*attack
	provider *samlprovider.Provider
	metadata *samlMetadata
	// ids are those of the connections by their names, and service is the certificate of samlConnection.
	ids     map[string]string
	service *x509.Certificate
	// open bounds the unfinished forms.
	open chan struct{}
	held sync.WaitGroup

	mu sync.Mutex
	// read counts the responses that servers read and answered as expected, by kind. other is the last other answer.
	read  map[string]int
	other string
}

// expensiveSAML posts the most expensive responses known, and has servers fetch the most expensive metadata known and
// metadata without an end.
func (a *attack) expensiveSAML() (err error) {
	s := &samlAttack{
		attack: a, provider: samlprovider.Start(time.Now), ids: map[string]string{}, open: make(chan struct{}, maxUnfinished), read: map[string]int{},
	}
	defer s.provider.Close()
	if s.metadata, err = newSAMLMetadata(a.in.site.tools); err != nil {
		return err
	}
	defer s.metadata.close()
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := s.declare(); err != nil {
		return err
	}
	responses := samlResponses(s.service)
	if err := s.readEach(responses); err != nil {
		return err
	}
	s.read = map[string]int{}
	a.flood(100, func(n int) {
		switch {
		case n%20 == 0:
			s.moveMetadata(n / 20)
		case n%20 == 10:
			_, _ = s.start(a.Server(), hostileMetadata[n/20%len(hostileMetadata)].name, traffic.Address(23, n)) // a server without the metadata fetches them
		case n%5 == 0:
			s.unfinished()
		case n%5 == 1:
			s.unsolicited(responses[n/5%len(responses)], traffic.Address(24, n))
		default:
			s.respond(responses, n)
		}
	})
	s.held.Wait()
	a.note = fmt.Sprintf("responses that were read %v, metadata that were fetched %v; the last other answer is %s", s.read, s.metadata.counts(), cmp.Or(s.other, "none"))
	return nil
}

// declare declares the connections, and waits until every server reads the first metadata of each.
func (s *samlAttack) declare() error {
	manifests := fmt.Sprintf(samlManifest, s.Namespace, samlConnection, s.provider.URL+"/metadata")
	for _, c := range hostileMetadata {
		manifests += fmt.Sprintf(samlManifest, s.Namespace, c.name, s.metadata.URL+"/"+c.paths[0])
	}
	if err := s.Apply(s.ctx, manifests); err != nil {
		return err
	}
	n := 0
	return testkit.Until(s.ctx, "the connections are not served", func() (err error) {
		for _, name := range []string{samlConnection, "saml-0", "saml-1", "saml-endless"} {
			var c v1alpha1.Connection
			if err := s.Cluster.Client.Get(s.ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, &c); err != nil {
				return err
			}
			s.ids[name] = c.Status.ID
		}
		for _, server := range s.Servers {
			for _, name := range []string{samlConnection, "saml-0", "saml-1"} {
				n++
				if _, err := s.start(server, name, traffic.Address(23, n)); err != nil {
					return err
				}
			}
		}
		if s.metadata.counts()["endless"] == 0 {
			s.leave("saml-endless", traffic.Address(23, n))
			return errors.New("the metadata without an end are not fetched")
		}
		s.service, err = s.certificate()
		return err
	})
}

// certificate returns the certificate of samlConnection.
func (s *samlAttack) certificate() (*x509.Certificate, error) {
	answer, err := s.Visit(s.Server(), http.MethodGet, "/sso/"+s.ids[samlConnection]+"/metadata", traffic.Address(23, 0), "", nil)
	if err := testkit.Fault(answer, err); err != nil {
		return nil, err
	}
	found := regexp.MustCompile(`<ds:X509Certificate>([^<]+)<`).FindSubmatch(answer.Raw)
	if found == nil {
		return nil, fmt.Errorf("the metadata have no certificate: %.300s", answer.Raw)
	}
	der, err := base64.StdEncoding.DecodeString(string(found[1]))
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// readEach posts each kind of response until a server reads it, so that the attack does what its name says.
func (s *samlAttack) readEach(responses []samlResponse) error {
	n := 0
	for _, r := range responses {
		err := testkit.Until(s.ctx, "the kind of response is not read: "+r.name, func() error {
			n++
			from := traffic.Address(25, n)
			request, err := s.begin(from)
			if err != nil {
				return err
			}
			if s.post(request, r, from); s.read[r.name] == 0 {
				return errors.New(s.other)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// start begins a sign-in by a connection, and returns the address of the provider with the request.
func (s *samlAttack) start(server *testkit.Cardea, connection, from string) (string, error) {
	answer, err := s.Visit(server, http.MethodPost, "/auth/sso", from, "application/json", strings.NewReader(`{"connection_id":"`+s.ids[connection]+`"}`))
	if err := testkit.Fault(answer, err); err != nil {
		return "", err
	}
	data, _ := answer.JSON["data"].(map[string]any)
	address, _ := data["authorization_url"].(string)
	return address, nil
}

// leave begins a sign-in by a connection whose metadata the server then fetches, and does not wait for the answer.
func (s *samlAttack) leave(connection, from string) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Server().Frontend+"/auth/sso", strings.NewReader(`{"connection_id":"`+s.ids[connection]+`"}`))
	if err != nil {
		return
	}
	req.Host = s.Host
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Forwarded-For", from)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close() // it is refused
	}
}

// begin begins a sign-in by samlConnection, and returns the request that reaches the provider.
func (s *samlAttack) begin(from string) (samlprovider.Request, error) {
	address, err := s.start(s.Server(), samlConnection, from)
	if err != nil {
		return samlprovider.Request{}, err
	}
	return s.provider.ReadRedirect(address, s.service)
}

// user is a user of the provider.
var user = samlprovider.User{NameID: "user", Attributes: map[string][]string{"mail": {"user@idp.attacker.example"}}}

// respond begins a sign-in, and posts three kinds of responses to it, which is how many are read.
func (s *samlAttack) respond(responses []samlResponse, n int) {
	from := traffic.Address(22, n)
	request, err := s.begin(from)
	if err != nil {
		return
	}
	for i := 0; i < 3 && s.ctx.Err() == nil; i++ {
		s.post(request, responses[(3*n+i)%len(responses)], from)
	}
}

// post posts a response to a request, and counts it if a server read it. Its refusal is then that of a response, not
// one of a bound on requests.
func (s *samlAttack) post(request samlprovider.Request, r samlResponse, from string) {
	answer, err := s.Form(s.Server(), s.acs(), from, s.provider.RespondAs(request, user, r.how))
	refused := answer.Status == http.StatusBadRequest && strings.Contains(string(answer.Raw), "SSO_RESPONSE_INVALID")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && answer.Status < http.StatusBadRequest && !r.accepted:
		s.breached(fmt.Errorf("a response that is wrong is accepted: %s: %.300s", r.name, answer.Raw))
	case err == nil && (r.accepted && answer.Status == http.StatusOK || !r.accepted && refused):
		s.read[r.name]++
	default:
		s.other = fmt.Sprintf("%s: %d %.300s %v", r.name, answer.Status, answer.Raw, err)
	}
}

// acs returns the path of the assertion consumer service of samlConnection.
func (s *samlAttack) acs() string { return "/sso/" + s.ids[samlConnection] + "/acs" }

// unsolicited posts a response that answers no request.
func (s *samlAttack) unsolicited(r samlResponse, from string) {
	answer, err := s.Form(s.Server(), s.acs(), from, s.provider.RespondAs(samlprovider.Request{}, user, r.how))
	if err == nil && answer.Status < http.StatusBadRequest {
		s.breached(fmt.Errorf("a response without a request is accepted: %.300s", answer.Raw))
	}
}

// unfinished posts the beginning of a form from one network, and waits until the server gives up.
func (s *samlAttack) unfinished() {
	select {
	case s.open <- struct{}{}:
	default:
		return
	}
	s.held.Go(func() {
		defer func() { <-s.open }()
		conn, err := (&net.Dialer{}).DialContext(s.ctx, "tcp", strings.TrimPrefix(s.Server().Frontend, "http://"))
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }() // no request was sent in full
		defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\nSAMLResponse=%s",
			s.acs(), s.Host, traffic.Address(26, 0), 384<<10, strings.Repeat("A", 300<<10)) // the server closes connections that it refuses
		_, _ = io.Copy(io.Discard, conn) // until the server closes it
	})
}

// moveMetadata gives a connection another address of its metadata, which servers fetch at once.
func (s *samlAttack) moveMetadata(n int) {
	of := hostileMetadata[n%len(hostileMetadata)]
	path := of.paths[n/len(hostileMetadata)%len(of.paths)]
	patch := fmt.Sprintf(`{"spec":{"saml":{"metadataURL":"%s/%s/%d"}}}`, s.metadata.URL, path, n)
	c := &v1alpha1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: of.name}}
	_ = s.Cluster.Client.Patch(s.ctx, c, client.RawPatch(types.MergePatchType, []byte(patch))) // the attack may have ended
}

// remove deletes the connections.
func (s *samlAttack) remove() error {
	selections := []client.MatchingFields{{"metadata.name": samlConnection}}
	for _, c := range hostileMetadata {
		selections = append(selections, client.MatchingFields{"metadata.name": c.name})
	}
	return s.takeBack(&v1alpha1.Connection{}, selections...)
}
