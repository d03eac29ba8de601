package enduser_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

func TestDirectoryAnswersEveryWrongTokenAlike(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		other := w.directory("initech", "initech", nil)
		expired, expiring := w.DirectoryToken()
		at := w.Clock.Now().Add(time.Minute)
		expiring.ExpiresAt = &at
		g.declare(func(d *document.Directory) { d.Verifiers = append(d.Verifiers, expiring) })
		right := g.token
		g.token = expired
		g.ok(http.StatusOK, "GET", "/Users", "")
		w.Clock.Advance(2 * time.Minute)
		key := right[:len(right)-1] + "x"
		if key == right {
			key = right[:len(right)-1] + "y"
		}
		unknown := ""
		for name, change := range map[string]func(){
			"expired": func() {}, "of another directory": func() { g.token = other.token }, "none": func() { g.token = "" }, "typo": func() { g.token = key },
			"an API key": func() { g.token = strings.Replace(right, "scim_", "ck_", 1) }, "unknown directory": func() { g.token, g.id = right, "4" },
			"another host": func() { g.host = "other.localhost" }, "unknown host": func() { g.host = "unknown.localhost" },
		} {
			before := *g.directory
			change()
			for _, path := range []string{"/Users", "/Users/1", "/Bulk", "/nothing", "/ServiceProviderConfig"} {
				a := g.do("GET", path, "")
				if unknown == "" {
					unknown = a.Raw
				}
				if a.Status != http.StatusUnauthorized || a.Raw != unknown || a.Header.Get("WWW-Authenticate") != "Bearer" {
					t.Errorf("%s, %s: %d %s", name, path, a.Status, a.Raw)
				}
			}
			*g.directory = before
		}
		g.token, g.host = right, "localhost"
		g.ok(http.StatusOK, "GET", "/Users", "")
		g.declare(func(d *document.Directory) { d.Active = false })
		g.refused(http.StatusForbidden, "", "GET", "/Users", "")
		other.refused(http.StatusNotFound, "", "GET", "/Users", "") // its organization does not exist
		w.Withdraw("Directory", "acme", "globex")
		g.refused(http.StatusUnauthorized, "", "GET", "/Users", "")
	})
}

func TestDirectoryRefusesWhatItDoesNotImplement(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		for _, path := range []string{"/Bulk", "/Me"} {
			g.refused(http.StatusNotImplemented, "", "POST", path, `{}`)
		}
		g.refused(http.StatusNotFound, "", "GET", "/Nothing", "")
		g.refused(http.StatusNotFound, "", "GET", "/Users/x", "")
		g.refused(http.StatusMethodNotAllowed, "", "DELETE", "/Users", "")
		g.refused(http.StatusUnsupportedMediaType, "", "POST", "/Users", `{}`, "Content-Type", "text/plain")
		g.refused(http.StatusRequestEntityTooLarge, "", "POST", "/Users", strings.Repeat(" ", 1<<20+1))
		g.refused(http.StatusBadRequest, "invalidSyntax", "POST", "/Users", `{`)
		g.refused(http.StatusBadRequest, "invalidValue", "POST", "/Users", `{"name":{}}`)
		for path, kind := range map[string]string{"/ServiceProviderConfig": "ServiceProviderConfig", "/Schemas": "ListResponse", "/ResourceTypes": "ListResponse", "/ResourceTypes/User": "ResourceType"} {
			if got := fmt.Sprint(g.ok(http.StatusOK, "GET", path, "")["schemas"]); !strings.Contains(got, kind) {
				t.Errorf("%s: schemas %s", path, got)
			}
		}
	})
}

func TestDirectoryListsByPagesAndFilters(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		var ids []string
		for i := range 5 {
			ids = append(ids, g.adds(fmt.Sprintf("u%d@globex.example", i), fmt.Sprintf(`,"externalId":"E%d","title":"T%d"`, i, i%2)))
			w.Clock.Advance(time.Second)
		}
		list := func(query string) (total int, found []string) {
			t.Helper()
			got := g.ok(http.StatusOK, "GET", "/Users?"+query, "")
			resources, _ := got["Resources"].([]any)
			for _, r := range resources {
				found = append(found, r.(map[string]any)["id"].(string))
			}
			return int(got["totalResults"].(float64)), found
		}
		for _, c := range []struct {
			query string
			total int
			want  []string
		}{
			{"", 5, ids}, {"startIndex=2&count=2", 5, ids[1:3]}, {"startIndex=-1&count=1", 5, ids[:1]}, {"count=0", 5, nil}, {"startIndex=6", 5, nil}, {"startIndex=99999999999999", 5, nil},
			{"filter=" + url.QueryEscape(`userName eq "U3@GLOBEX.example"`), 1, ids[3:4]},
			{"filter=" + url.QueryEscape(`externalId eq "E1"`), 1, ids[1:2]},
			{"filter=" + url.QueryEscape(`externalId eq "e1"`), 0, nil},
			{"filter=" + url.QueryEscape(`id eq "`+ids[2]+`"`), 1, ids[2:3]},
			{"filter=" + url.QueryEscape(`id eq "x"`), 0, nil},
			{"filter=" + url.QueryEscape(`emails[type eq "work" and value co "u4"]`), 1, ids[4:]},
			{"filter=" + url.QueryEscape(`emails.value eq "u4@globex.example"`), 1, ids[4:]},
			{"filter=" + url.QueryEscape(`title eq "T0"`) + "&count=2", 3, []string{ids[0], ids[2]}},
			{"filter=" + url.QueryEscape(`title eq "T0"`) + "&startIndex=3", 3, ids[4:]},
			{"filter=" + url.QueryEscape(`userName eq "u3@globex.example" and title eq "T0"`), 0, nil},
			{"filter=" + url.QueryEscape(`userName eq "x' OR '1'='1"`), 0, nil},
			{"filter=" + url.QueryEscape(`userName eq "u'3"`), 0, nil},
			{"filter=" + url.QueryEscape(`userName sw "%"`), 0, nil},
			{"filter=" + url.QueryEscape(`userName co "_"`), 0, nil},
		} {
			if total, found := list(c.query); total != c.total || fmt.Sprint(found) != fmt.Sprint(c.want) {
				t.Errorf("%s: %d %v, want %d %v", c.query, total, found, c.total, c.want)
			}
		}
		g.refused(http.StatusBadRequest, "invalidFilter", "GET", "/Users?filter="+url.QueryEscape(`unknown eq "x"`), "")
		g.refused(http.StatusBadRequest, "invalidFilter", "GET", "/Users?filter="+url.QueryEscape(`userName eq `), "")
		g.refused(http.StatusBadRequest, "invalidValue", "GET", "/Users?count=many", "")
		if got := g.ok(http.StatusOK, "GET", "/Users/"+ids[0]+"?attributes=userName", ""); got["userName"] == nil || got["emails"] != nil {
			t.Errorf("%v", got)
		}
	})
}

func TestDirectoryHonorsVersions(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("ann@globex.example")
		a := g.do("GET", "/Users/"+id, "")
		tag := a.Header.Get("ETag")
		if tag != `W/"1"` {
			t.Fatalf("ETag %s", tag)
		}
		if again := g.do("GET", "/Users/"+id, "", "If-None-Match", tag); again.Status != http.StatusNotModified || again.Raw != "" {
			t.Errorf("%d %s", again.Status, again.Raw)
		}
		g.ok(http.StatusOK, "PATCH", "/Users/"+id, `{"Operations":[{"op":"add","path":"title","value":"Lead"}]}`, "If-Match", tag)
		g.refused(http.StatusPreconditionFailed, "", "PATCH", "/Users/"+id, `{"Operations":[{"op":"add","path":"title","value":"Head"}]}`, "If-Match", tag)
		g.refused(http.StatusPreconditionFailed, "", "DELETE", "/Users/"+id, "", "If-Match", tag)
		got := g.ok(http.StatusOK, "PUT", "/Users/"+id, `{"userName":"ann@globex.example"}`, "If-Match", `W/"2"`)
		if got["title"] != nil || got["active"] == false {
			t.Errorf("PUT keeps what it does not name: %v", got)
		}
		g.activates(id, false)
		if got := g.ok(http.StatusOK, "PUT", "/Users/"+id, `{"userName":"ann@globex.example","title":"x"}`); got["active"] != false {
			t.Errorf("PUT without active activates: %v", got)
		}
		g.refused(http.StatusConflict, "uniqueness", "POST", "/Users", `{"userName":"ANN@globex.example"}`)
	})
}

func TestBusyDirectoryIsRefusedAndOthersAreNot(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		_, _, slug := w.customer("initech")
		other := w.directory("initech", slug, nil)
		refused := 0
		for range 1100 { // the clock of the world stands still
			if a := g.do("GET", "/ServiceProviderConfig", ""); a.Status == http.StatusTooManyRequests {
				refused++
				if a.Header.Get("Retry-After") == "" {
					t.Fatal("no Retry-After")
				}
			}
		}
		if refused != 100 {
			t.Errorf("%d of 1,100 requests were refused, want 100", refused)
		}
		other.ok(http.StatusOK, "GET", "/Users", "")
		w.Clock.Advance(time.Second)
		g.ok(http.StatusOK, "GET", "/Users", "")
	})
}
