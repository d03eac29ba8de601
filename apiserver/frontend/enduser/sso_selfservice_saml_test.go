package enduser_test

import (
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/samlmetadata"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	idpEntity = "https://idp.globex.example/saml"
	idpSignOn = "https://idp.globex.example/sso?idp=1"
)

// managesSAML lets organizations manage connections of all types.
func (w *world) managesSAML() {
	w.T.Helper()
	w.managesConnections(func(c *document.OrganizationConnections) { c.Types = []string{"OIDC", "SAML"} })
}

// certificate returns a new certificate of an identity provider, in DER.
func (w *world) certificate() []byte {
	w.T.Helper()
	der, err := samlmetadata.Certificate(elliptic.P256())
	w.Must(err)
	return der
}

// metadataServer serves metadata, and returns its URL.
func (w *world) metadataServer(xml *atomic.Pointer[string]) string {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(*xml.Load())) }))
	w.T.Cleanup(server.Close)
	return server.URL + "/metadata"
}

// samlBody returns a body with members of a SAML connection: names and values in turn.
func samlBody(members ...string) string {
	sent := map[string]string{}
	for i := 0; i < len(members); i += 2 {
		sent[members[i]] = members[i+1]
	}
	raw, _ := json.Marshal(sent)
	return string(raw)
}

// keyOf opens the private key of a row.
func (w *world) keyOf(conn string) string {
	w.T.Helper()
	id, err := ids.Parse(conn)
	w.Must(err)
	var row people.Connection
	w.tx(func(tx people.Tx) (err error) { row, _, err = tx.Connections().Connection(id); return err })
	if strings.Contains(row.Settings, "PRIVATE KEY") || strings.Contains(row.Secrets, "PRIVATE KEY") {
		w.T.Error("the row has the private key in the clear")
	}
	key, err := w.Keyring.Open(people.SealedConnection, people.SealedFor(deploymentName, id), row.Secrets)
	w.Must(err)
	return string(key)
}

func TestOrganizationSetsUpASAMLConnection(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(func(c *document.OrganizationConnections) { c.Types = []string{"OIDC"} })
		owner, id, _ := w.customer("globex")
		path := "/organizations/" + id + "/connections"
		der := w.certificate()
		xml := samlmetadata.XML(idpEntity, idpSignOn, der)
		var served atomic.Pointer[string]
		served.Store(&xml)
		owner.refused(403, "SELF_SERVICE_DISABLED", "POST", path, samlBody("type", "SAML", "display_name", "Globex", "metadata_xml", xml))
		w.managesSAML()
		for name, members := range map[string][]string{
			"metadata_url": {"metadata_url", w.metadataServer(&served)},
			"metadata_xml": {"metadata_xml", xml},
			"PEM":          {"entity_id", idpEntity, "sso_url", idpSignOn, "certificate", samlmetadata.PEM(der)},
			"base64":       {"entity_id", idpEntity, "sso_url", idpSignOn, "certificate", base64.StdEncoding.EncodeToString(der)},
		} {
			made := owner.ok("POST", path, samlBody(append([]string{"type", "SAML", "display_name", "Globex"}, members...)...))
			conn := made["id"].(string)
			if made["type"] != "SAML" || made["is_active"] != true || made["issuer"] != "" || made["client_id"] != "" || made["client_secret"] != "" || len(made["redirect_uris"].([]any)) != 0 {
				t.Errorf("%s: %v", name, made)
			}
			if fetched := name == "metadata_url"; fetched != (made["reachable"] == true) || made["last_error"] != "" {
				t.Errorf("%s: reachable %v, %v", name, made["reachable"], made["last_error"])
			}
			view := made["saml"].(map[string]any)
			if view["entity_id"] != idpEntity || view["sso_url"] != idpSignOn || view["certificate_expires_at"] != "2036-01-01T00:00:00Z" {
				t.Errorf("%s: %v", name, view)
			}
			entity := view["sp_entity_id"].(string)
			if !strings.HasSuffix(entity, "/sso/"+conn+"/metadata") || view["sp_metadata_url"] != entity {
				t.Errorf("%s: the connection is %s with metadata at %v", name, entity, view["sp_metadata_url"])
			}
			if urls := view["acs_urls"].([]any); len(urls) != 2 || urls[0] != strings.TrimSuffix(entity, "/metadata")+"/acs" {
				t.Errorf("%s: assertion consumer services %v", name, urls)
			}
			if !strings.HasPrefix(w.keyOf(conn), "-----BEGIN PRIVATE KEY-----") {
				t.Errorf("%s: the row has no key", name)
			}
			if strings.Contains(owner.last.Raw, "PRIVATE KEY") || strings.Contains(owner.do("GET", path, "").Raw, "PRIVATE KEY") {
				t.Errorf("%s: a response has the private key", name)
			}
			owner.ok("DELETE", path+"/"+conn, "")
		}
	})
}

func TestSAMLConnectionIsCompletedLater(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		path := "/organizations/" + id + "/connections"
		made := owner.ok("POST", path, samlBody("type", "SAML", "display_name", "Globex"))
		own := path + "/" + made["id"].(string)
		if view := made["saml"].(map[string]any); made["is_active"] != false || view["entity_id"] != "" || view["certificate_expires_at"] != nil || view["sp_entity_id"] == "" {
			t.Errorf("%v", made)
		}
		owner.refused(400, "VALIDATION_ERROR", "PATCH", own, `{"is_active":true}`)
		key := w.keyOf(made["id"].(string))
		got := owner.ok("PATCH", own, samlBody("metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, w.certificate())))
		if got["is_active"] != true || got["saml"].(map[string]any)["entity_id"] != idpEntity {
			t.Errorf("%v", got)
		}
		if got["saml"].(map[string]any)["sp_entity_id"] != made["saml"].(map[string]any)["sp_entity_id"] || w.keyOf(made["id"].(string)) != key {
			t.Error("the change gave the connection another entity ID or key")
		}
	})
}

func TestSAMLSettingsAreChecked(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		path := "/organizations/" + id + "/connections"
		der := w.certificate()
		pem, xml := samlmetadata.PEM(der), samlmetadata.XML(idpEntity, idpSignOn, der)
		weak, err := samlmetadata.Certificate(elliptic.P224())
		w.Must(err)
		three := func(entity, signOn, certificate string) []string {
			return []string{"entity_id", entity, "sso_url", signOn, "certificate", certificate}
		}
		for _, tc := range []struct {
			names   string // the member that the fault names
			members []string
		}{
			{"issuer", []string{"metadata_xml", xml, "issuer", "https://idp.example"}},
			{"client_id", []string{"metadata_xml", xml, "client_id", "a"}},
			{"client_secret", []string{"metadata_xml", xml, "client_secret", "b"}},
			{"metadata_url", []string{"metadata_xml", xml, "metadata_url", "https://idp.example/metadata"}},
			{"metadata_xml", append(three(idpEntity, idpSignOn, pem), "metadata_xml", xml)},
			{"metadata_url", append(three(idpEntity, idpSignOn, pem), "metadata_url", "https://idp.example/metadata")},
			{"metadata_url", []string{"metadata_url", "http://idp.example/metadata"}},
			{"metadata_url", []string{"metadata_url", ""}},
			{"sso_url", []string{"entity_id", idpEntity, "certificate", pem}},
			{"certificate", []string{"entity_id", idpEntity, "sso_url", idpSignOn}},
			{"entity_id", []string{"sso_url", idpSignOn, "certificate", pem}},
			{"entity_id", three("", idpSignOn, pem)},
			{"sso_url", three(idpEntity, "http://idp.example/sso", pem)},
			{"sso_url", three(idpEntity, "https://idp.example/sso#a", pem)},
			{"certificate", three(idpEntity, idpSignOn, "")},
			{"certificate", three(idpEntity, idpSignOn, "bm8gY2VydGlmaWNhdGU=")},
			{"certificate", three(idpEntity, idpSignOn, pem+pem)},
			{"certificate", three(idpEntity, idpSignOn, samlmetadata.PEM(weak))},
			{"certificate", three(idpEntity, idpSignOn, strings.ReplaceAll(pem, "CERTIFICATE", "PRIVATE KEY"))},
		} {
			refused := owner.refused(400, "VALIDATION_ERROR", "POST", path, samlBody(append([]string{"type", "SAML", "display_name", "Globex"}, tc.members...)...))
			if !strings.Contains(refused.Raw, `"message":"`+tc.names+" ") {
				t.Errorf("%.60v: the fault does not name %s: %s", tc.members, tc.names, refused.Raw)
			}
		}
		owner.refused(400, "VALIDATION_ERROR", "POST", path, samlBody("type", "OIDC", "display_name", "Globex", "metadata_xml", xml))
		owner.refused(400, "VALIDATION_ERROR", "POST", path, samlBody("type", "LDAP", "display_name", "Globex"))
		for want, raw := range map[string]string{
			"xml": "<html>", "structure": "<a/>", "certificates": strings.ReplaceAll(xml, "signing", "encryption"),
			"endpoint": strings.ReplaceAll(xml, idpSignOn, "http://idp.example"), "valid_until": strings.Replace(xml, " entityID", ` validUntil="2020-01-01T00:00:00Z" entityID`, 1),
		} {
			refused := owner.refused(400, "INVALID_METADATA", "POST", path, samlBody("type", "SAML", "display_name", "Globex", "metadata_xml", raw))
			if !strings.Contains(refused.Raw, fmt.Sprintf(`"reason":%q`, want)) || !strings.Contains(refused.Raw, `"message":"metadata_xml `) {
				t.Errorf("%s: %s", want, refused.Raw)
			}
		}
		owner.refused(413, "PAYLOAD_TOO_LARGE", "POST", path, samlBody("type", "SAML", "display_name", "Globex", "metadata_xml", xml+strings.Repeat(" ", 16<<10)))
		if n := len(owner.list(path)); n != 0 {
			t.Errorf("%d connections were set up", n)
		}

		p := w.provider()
		oidc := path + "/" + owner.setUp(id, p, "")
		saml := path + "/" + owner.ok("POST", path, samlBody("type", "SAML", "display_name", "Globex", "metadata_xml", xml))["id"].(string)
		owner.refused(400, "VALIDATION_ERROR", "PATCH", oidc, samlBody("metadata_xml", xml))
		owner.refused(400, "VALIDATION_ERROR", "PATCH", saml, samlBody("issuer", "https://idp.example"))
		owner.refused(400, "VALIDATION_ERROR", "PATCH", saml, samlBody("client_secret", "a secret"))
		owner.refused(400, "INVALID_METADATA", "PATCH", saml, samlBody("metadata_xml", "<html>"))
		owner.ok("PATCH", saml, samlBody("display_name", "Ours"))
	})
}

// Another certificate of the same entity needs no confirmation, because its users stay the same.
func TestAnotherSAMLEntityInheritsNoUser(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		path := "/organizations/" + id + "/connections"
		made := owner.ok("POST", path, samlBody("type", "SAML", "display_name", "Globex", "metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, w.certificate())))
		own := path + "/" + made["id"].(string)
		conn, err := ids.Parse(made["id"].(string))
		w.Must(err)
		user, err := ids.Parse(owner.ok("GET", "/me", "")["id"].(string))
		w.Must(err)
		links := func() {
			t.Helper()
			w.tx(func(tx people.Tx) error {
				return tx.Identities().InsertIdentity(people.Identity{
					ID: conn + 1, Connection: conn, Issuer: idpEntity, Subject: "1", User: user, CreatedAt: w.Clock.Now().UTC(), UsedAt: w.Clock.Now().UTC(),
				})
			})
		}
		linked := func(want int) {
			t.Helper()
			var have []people.Identity
			w.tx(func(tx people.Tx) (err error) { have, err = tx.Identities().IdentitiesOf(user); return err })
			if len(have) != want {
				t.Errorf("%d identities, not %d", len(have), want)
			}
		}
		links()
		w.Clock.Advance(time.Second)
		owner.ok("PATCH", own, samlBody("metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, w.certificate())))
		linked(1)
		// The certificate of the provider is not tested yet.
		owner.refused(400, "SSO_NOT_TESTED", "PATCH", own, `{"enforcement":"Members"}`)
		owner.ok("PATCH", own, samlBody("entity_id", idpEntity, "sso_url", "https://idp.globex.example/other", "certificate", samlmetadata.PEM(w.certificate())))
		linked(1)

		xml := samlmetadata.XML("https://idp.initech.example", idpSignOn, w.certificate())
		var served atomic.Pointer[string]
		served.Store(&xml)
		for _, change := range [][]string{
			{"metadata_xml", xml}, {"metadata_url", w.metadataServer(&served)}, {"metadata_url", w.metadataServer(&served) + "?2"},
			{"metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, w.certificate())},
		} {
			owner.refused(400, "VALIDATION_ERROR", "PATCH", own, samlBody(change...))
			owner.refused(400, "VALIDATION_ERROR", "PATCH", own, samlBody(append(change, "confirmation", "globex")...))
			linked(1)
			owner.ok("PATCH", own, samlBody(append(change, "confirmation", "Globex")...))
			linked(0)
			links()
		}
	})
}

// A key takes a second of processor time, so an organization gets few of them, whatever it deletes meanwhile.
func TestKeysOfConnectionsAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		organization, err := ids.Parse(id)
		w.Must(err)
		path, body := "/organizations/"+id+"/connections", samlBody("type", "SAML", "display_name", "Globex")
		w.tx(func(tx people.Tx) error {
			for range 19 {
				now := w.Clock.Now().UTC()
				if _, err := tx.Limits().Count("connection-keys", fmt.Sprint(organization), now, now.Add(24*time.Hour)); err != nil {
					return err
				}
			}
			return nil
		})
		made := owner.ok("POST", path, body)
		owner.ok("DELETE", path+"/"+made["id"].(string), "")
		owner.refused(429, "RATE_LIMITED", "POST", path, body)
		owner.setUp(id, w.provider(), "") // the bound is for keys alone
		w.Clock.Advance(25 * time.Hour)
		owner = w.browser()
		owner.signIn("owner@globex.example")
		owner.ok("POST", path, body)
	})
}

func TestSetupLinkSetsUpASAMLConnection(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		_, token := owner.makesLink(id, "it@globex.example", `"sso"`)
		it := w.browser()
		it.opens(token, "it@globex.example", 1)
		path := "/organizations/" + id + "/connections"
		made := it.ok("POST", path, samlBody("type", "SAML", "display_name", "Globex"))
		it.ok("PATCH", path+"/"+made["id"].(string), samlBody("metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, w.certificate())))
		if got := owner.ok("GET", path+"/"+made["id"].(string), ""); got["is_active"] != true {
			t.Errorf("%v", got)
		}
	})
}

func TestBackendSetsUpASAMLConnection(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil) // the types bound organizations, not backends
		_, id, _ := w.customer("globex")
		desk := w.desk("connections", deploymentName, "connections:read", "connections:write")
		xml := samlmetadata.XML(idpEntity, idpSignOn, w.certificate())
		made := desk.expect(200, "POST", "/connections", samlBody("type", "SAML", "organization_id", id, "display_name", "Globex", "metadata_xml", xml))
		conn, view := made["id"].(string), made["saml"].(map[string]any)
		if made["is_active"] != true || made["issuer"] != "" || made["client_secret"] != "" || view["entity_id"] != idpEntity || len(view["acs_urls"].([]any)) != 2 {
			t.Errorf("%v", made)
		}
		if !strings.HasPrefix(view["sp_entity_id"].(string), "https://") || !strings.HasSuffix(view["sp_entity_id"].(string), "/sso/"+conn+"/metadata") {
			t.Errorf("%v", view)
		}
		if !strings.HasPrefix(w.keyOf(conn), "-----BEGIN PRIVATE KEY-----") || strings.Contains(fmt.Sprint(made), "PRIVATE KEY") {
			t.Error("the key is missing, or shown")
		}
		list := desk.expect(200, "GET", "/connections", "")["data"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["saml"].(map[string]any)["entity_id"] != idpEntity {
			t.Errorf("%v", list)
		}
		moved := samlmetadata.XML("https://idp.initech.example", idpSignOn, w.certificate())
		desk.expect(400, "PATCH", "/connections/"+conn, samlBody("metadata_xml", moved))
		desk.expect(400, "PATCH", "/connections/"+conn, samlBody("metadata_xml", "<html>"))
		desk.expect(400, "PATCH", "/connections/"+conn, samlBody("issuer", "https://idp.example"))
		desk.expect(200, "PATCH", "/connections/"+conn, samlBody("metadata_xml", samlmetadata.XML(idpEntity, idpSignOn, w.certificate())))
		got := desk.expect(200, "PATCH", "/connections/"+conn, samlBody("metadata_xml", moved, "confirmation", "Globex"))
		if got["saml"].(map[string]any)["entity_id"] != "https://idp.initech.example" {
			t.Errorf("%v", got)
		}
		everybody := desk.expect(200, "POST", "/connections", samlBody("type", "SAML", "display_name", "All"))
		if everybody["organization_id"] != nil || everybody["is_active"] != false || everybody["just_in_time"] != false {
			t.Errorf("%v", everybody)
		}
		desk.expect(204, "DELETE", "/connections/"+conn, "")
	})
}
