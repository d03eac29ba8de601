package saml

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
)

// peerInput and peerOutput are what test/samlpeers/verify.js reads and prints.
type peerInput struct {
	Now       string            `json:"now"`
	Request   string            `json:"request"`
	ACS       string            `json:"acs"`
	SP        string            `json:"sp"`
	IDP       string            `json:"idp"`
	IDPCert   string            `json:"idpCert"`
	IDPKey    string            `json:"idpKey"`
	SPKey     string            `json:"spKey"`
	SPCert    string            `json:"spCert"`
	Responses map[string]string `json:"responses"`
	Unsigned  string            `json:"unsigned"`
	Posts     []string          `json:"posts"`
	Redirects []string          `json:"redirects"`
}

type peerOutput struct {
	Decisions map[string]decision `json:"decisions"`
	Signed    map[string]string   `json:"signed"`
	Posts     []bool              `json:"posts"`
	Redirects []bool              `json:"redirects"`
}

// decision is the subject of an accepted response, or why a peer refuses a response.
type decision struct{ Subject, Error string }

// vectors are the responses on which peers decide, by the name of the shape, a colon and that of the row: of a provider
// whose clock is later than now, signed by a key.
func vectors(by signer, later time.Duration) map[string][]byte {
	all := map[string][]byte{}
	add := func(row string, a answer) {
		states := a.states
		a.states = func(root *etree.Element) {
			apply(states, root)
			shift(later)(root)
		}
		if a.by == nil {
			a.by = &by
		}
		all[a.name+": "+row] = a.xml()
	}
	for _, s := range shapes {
		add("right", answer{shape: s})
		for name, states := range mayBeAbsent() {
			add(name, answer{shape: s, states: states})
		}
		for name, signs := range rightSignatures() {
			add(name, answer{shape: s, signs: signs})
		}
		for name, tc := range forOthers() {
			add(name, answer{shape: s, states: tc.states})
		}
		for name, tc := range weakSignatures() {
			if tc.by.cert.Equal(keys().idp.cert) {
				add(name, answer{shape: s, signs: tc.signs})
			}
		}
		add("of the attacker", answer{shape: s, by: &keys().attacker})
		for _, w := range wrappings() {
			if !s.encrypts && (w.response && s.response || !w.response && s.assertion) {
				add(w.name, answer{shape: s, attack: w.attack})
			}
		}
		right := all[s.name+": right"]
		all[s.name+": a DOCTYPE"] = append([]byte("<!DOCTYPE x>"), right...)
		all[s.name+": an instruction"] = append([]byte("<?x y?>"), right...)
	}
	for _, s := range plain() {
		for name, tc := range changed() {
			add(name, answer{shape: s, attack: tc.states})
		}
	}
	return all
}

// difference is why a peer decides otherwise on rows of shapes. shapes is nil if the peer does so in any of them.
type difference struct {
	why    string
	shapes []string
	rows   []string
}

// covers returns the name of a difference in its list, "" if none has a row of a shape.
func covers(all []difference, shape, row string) string {
	for _, d := range all {
		switch {
		case !slices.Contains(d.rows, row):
		case d.shapes == nil:
			return row
		case slices.Contains(d.shapes, shape):
			return shape + ": " + row
		}
	}
	return ""
}

// peer is another service provider.
type peer struct {
	name string
	// laxer are the responses that it accepts, for the right subject, and stricter those that it refuses, unlike ours.
	laxer, stricter []difference
}

// compare compares our decisions with those of a peer. It returns how many responses both accept, and both refuse.
func (p peer) compare(t *testing.T, all map[string][]byte, want Expected, theirs map[string]decision) (accepted, refused int) {
	t.Helper()
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, ours := evaluate(all[name], want)
		decided, found := theirs[name]
		shape, row, _ := strings.Cut(name, ": ")
		lax, strict := covers(p.laxer, shape, row), covers(p.stricter, shape, row)
		switch {
		case !found || decided.Error == "" && decided.Subject != testSubject:
			t.Errorf("%s: %s reads the subject %q (it decided: %t)", name, p.name, decided.Subject, found)
		case ours == nil && decided.Error == "":
			accepted++
		case ours != nil && decided.Error != "":
			refused++
		case ours == nil && strict == "":
			t.Errorf("%s: accepted here, and refused by %s: %s", name, p.name, decided.Error)
		case ours != nil && lax == "":
			t.Errorf("%s: refused here (%v), and accepted by %s", name, ours, p.name)
		default:
			used[lax+strict] = true
		}
	}
	for _, d := range slices.Concat(p.laxer, p.stricter) {
		for _, row := range d.rows {
			for _, shape := range d.shapes {
				if !used[shape+": "+row] {
					t.Errorf("%s decides as we do on %q, %q now: %s", p.name, shape, row, d.why)
				}
			}
			if d.shapes == nil && !used[row] {
				t.Errorf("%s decides as we do on %q now: %s", p.name, row, d.why)
			}
		}
	}
	t.Logf("%d responses: %s accepts %d and refuses %d of them as we do; %d kinds differ", len(all), p.name, accepted, refused, len(used))
	return accepted, refused
}

// nodeSAML is node-saml with its default settings.
var nodeSAML = peer{name: "node-saml", laxer: []difference{
	{why: "it does not check these values", rows: []string{
		"a status of failure", "no status", "another issuer of the response", "another issuer of the assertion", "an issuer that begins with the right",
		"another destination", "an empty destination", "another recipient", "no recipient", "the recipient of another host", "the confirmation of no request",
		"holder of key", "sender vouches", "no method", "version 1.1 of the response", "version 1.1 of the assertion", "a time without a zone",
		"a time of 65 characters", "no time of the authentication", "no time of the response", "an ID of the assertion with a bracket",
	}},
	{why: "it accepts these algorithms and parts", rows: []string{
		"SHA-1", "a method with SHA-1", "a digest by SHA-1", "the form with comments", "the form with comments, of itself", "the inclusive form",
		"the transforms in another order", "a DOCTYPE", "an instruction", "an Object", "two KeyInfos", "two values",
		"7: a forged assertion in Extensions", "another response in the response",
	}},
	{why: "it verifies one signature of two", rows: []string{
		"a changed version", "a further attribute", "another element", "another namespace of a value", "a stated digest of SHA-1", "a stated inclusive form",
		"a stated method of HMAC", "a stated method of SHA-1", "a value of another content", "a value that is not base64", "an empty value", "no value", "no transforms",
	}},
}, stricter: []difference{{why: "it does not have this digest", rows: []string{"RSA with SHA-384"}}}}

func privatePEM(key any) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func certificatePEM(cert *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
}

// decide runs node-saml.
func decide(t *testing.T, input peerInput) (out peerOutput) {
	t.Helper()
	peers, err := filepath.Abs("../../../test/samlpeers")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(peers, "node_modules", ".installed")); err != nil {
		t.Skip("node-saml is missing: make test-connections installs it")
	}
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "node", "verify.js")
	command.Dir, command.Stdin = peers, bytes.NewReader(raw)
	var stderr strings.Builder
	command.Stderr = &stderr
	printed, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if err := json.Unmarshal(printed, &out); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	return out
}

// node-saml accepts no response that is refused here, except for the rules that it does not have, and it accepts each
// right one, except for a digest that it does not have. Responses that xml-crypto and xml-encryption made are accepted,
// and xml-crypto verifies our messages.
func TestPublishedServiceProviderAgrees(t *testing.T) {
	k := keys()
	unsigned := response()
	at(unsigned, "Assertion").CreateAttr("xmlns:saml", nsAssertion) // xml-encryption encrypts the text as it is
	input := peerInput{
		Now: now.Format("2006-01-02T15:04:05Z"), Request: testRequest, ACS: testACS, SP: testSP, IDP: testIDP, IDPCert: certificatePEM(k.idp.cert),
		IDPKey: privatePEM(k.idp.key), SPKey: privatePEM(k.sp.Private), SPCert: certificatePEM(k.sp.Certificate), Responses: map[string]string{}, Unsigned: string(render(unsigned)),
	}
	all := vectors(k.idp, 0)
	for name, xml := range all {
		input.Responses[name] = encode(xml)
	}
	form, err := request().PostForm(k.sp)
	if err != nil {
		t.Fatal(err)
	}
	address, err := request().RedirectURL(k.sp)
	if err != nil {
		t.Fatal(err)
	}
	input.Posts, input.Redirects = []string{form.Message}, []string{address}
	out := decide(t, input)
	want := expected()
	want.Provider = provider(k.idp)
	nodeSAML.compare(t, all, want, out.Decisions)
	for name, signed := range out.Signed {
		r, err := ReadResponse(signed)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a, err := r.Evaluate(want); err != nil || a.Subject != testSubject {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if len(out.Signed) != 11 || !slices.Equal(out.Posts, []bool{true}) || !slices.Equal(out.Redirects, []bool{true}) {
		t.Errorf("%d responses are signed; our messages verify: %v, %v", len(out.Signed), out.Posts, out.Redirects)
	}
}
