package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// moved is the import file of a small tenant.
const moved = `{"type":"user","external_id":"u1","first_name":" Ada ","last_name":"Lovelace","created_at":"2024-02-29T13:00:00.1234567+01:00","password_hash":"$2b$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"}
{"type":"user","external_id":"u2","disabled":true,"first_name":null,"created_at":"2024-03-01T00:00:00Z"}
{"type":"email","external_id":"e1","user":"u1","email":"Ada@Example.com","verified_at":"2024-02-29T12:01:00Z"}
{"type":"email","external_id":"e2","user":"u1","email":"second@example.com"}
{"type":"email","external_id":"e3","user":"u2","email":"bob@example.com","primary":false}
{"type":"email","external_id":"e4","user":"u2","email":"bob2@example.com","primary":true}

{"type":"phone","external_id":"p1","user":"u1","phone_number":"+14155552671"}
{"type":"phone","external_id":"p2","user":"u1","phone_number":"+14155552672","verified_at":"2024-02-29T12:02:00Z"}
{"type":"phone","external_id":"p3","user":"u2","phone_number":"+14155552672"}
{"type":"organization","external_id":"o1","name":"Acme","description":"two\nlines","image_url":"https://acme.example/a.png","created_at":"2024-04-01T00:00:00Z"}
{"type":"organization","external_id":"o2","name":"Acme"}
{"type":"organization","external_id":"o3","name":"Other","slug":"chosen"}
{"type":"workspace","external_id":"w1","organization":"o1","name":"Main","created_at":"2024-04-02T00:00:00Z"}
{"type":"workspace","external_id":"w2","organization":"o1","name":"Main"}
{"type":"workspace","external_id":"w3","organization":"o1","name":"Best","default":true}
{"type":"membership","external_id":"m1","user":"u1","organization":"o1","owner":true,"created_at":"2024-04-03T00:00:00Z"}
{"type":"membership","external_id":"m2","user":"u1","workspace":"w1"}
{"type":"membership","external_id":"m3","user":"u2","organization":"o1","role":"clerk"}
{"type":"signin","external_id":"s1","user":"u1","signed_in_at":"2024-03-01T08:30:00.25+01:00","method":"password","ip_address":"192.0.2.1","user_agent":"old"}
{"type":"signin","external_id":"s2","user":"u2","signed_in_at":"NOW","method":"sso:google","ip_address":"::ffff:192.0.2.2","user_agent":"new"}
{"type":"signin","external_id":"s3","user":"u2","signed_in_at":"2024-03-02T00:00:00Z"}
{"type":"api_key","external_id":"k1","app":"shop","name":"Old","sha256":"` + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" + `","user":"u1","workspace":"w1"}
`

// movedNow returns moved, with the present as the time of its one recent sign-in.
func movedNow() string {
	return strings.Replace(moved, "NOW", time.Now().UTC().Format(time.RFC3339Nano), 1)
}

// read reads rows of ns/acme.
func read[T any](t *testing.T, s served, do func(people.Tx) (T, error)) (out T) {
	t.Helper()
	if err := s.rows.View(t.Context(), "ns/acme", func(tx people.Tx) (err error) { out, err = do(tx); return err }); err != nil {
		t.Fatal(err)
	}
	return out
}

// rowOf returns the id of the row that was imported from a line.
func (s served) rowOf(t *testing.T, kind, externalID string) int64 {
	t.Helper()
	found := read(t, s, func(tx people.Tx) (map[string]int64, error) {
		return tx.Imports().ImportedAs(kind, []string{externalID})
	})
	if found[externalID] == 0 {
		t.Fatalf("no %s %s was imported", kind, externalID)
	}
	return found[externalID]
}

func TestImportUsers(t *testing.T) {
	t.Parallel()
	s := keyWorld(t)
	if got := s.imports(t, "file", 0, movedNow(), "&complete=true"); got.Imported != 22 || got.Rejected != 0 {
		t.Fatalf("%+v", got)
	}
	ada, bob := s.rowOf(t, "user", "u1"), s.rowOf(t, "user", "u2")
	first := read(t, s, func(tx people.Tx) (people.User, error) { u, _, err := tx.Users().User(ada); return u, err })
	created := time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)
	if first.FirstName != "Ada" || first.LastName != "Lovelace" || !first.CreatedAt.Equal(created) || first.Email != "Ada@Example.com" || first.Phone != "+14155552672" || first.Disabled {
		t.Errorf("%+v", first)
	}
	second := read(t, s, func(tx people.Tx) (people.User, error) { u, _, err := tx.Users().User(bob); return u, err })
	if !second.Disabled || second.Email != "bob2@example.com" || second.Phone != "" || second.FirstName != "" {
		t.Errorf("%+v", second)
	}
	emails := read(t, s, func(tx people.Tx) ([]people.Email, error) { return tx.Users().EmailsOf(ada) })
	// The addresses are in the order of their lines.
	if len(emails) != 2 || emails[0].VerifiedAt.IsZero() || !emails[1].VerifiedAt.IsZero() || emails[1].Primary {
		t.Errorf("%+v", emails)
	}
	secret := read(t, s, func(tx people.Tx) (string, error) {
		encoded, _, err := tx.Users().Credential(ada, people.CredentialPassword)
		return encoded, err
	})
	if !strings.HasPrefix(secret, "$2b$12$") {
		t.Errorf("the password is %q", secret)
	}
}

func TestImportOrganizations(t *testing.T) {
	t.Parallel()
	s := keyWorld(t)
	s.imports(t, "file", 0, movedNow(), "&complete=true")
	ada, bob := s.rowOf(t, "user", "u1"), s.rowOf(t, "user", "u2")
	organization := func(externalID string) people.Organization {
		id := s.rowOf(t, "organization", externalID)
		return read(t, s, func(tx people.Tx) (people.Organization, error) {
			o, _, err := tx.Organizations().Organization(id)
			return o, err
		})
	}
	acme, other := organization("o1"), organization("o3")
	if acme.Slug != "acme" || acme.Description != "two\nlines" || acme.ImageURL != "https://acme.example/a.png" || acme.Workspace != s.rowOf(t, "workspace", "w3") || other.Slug != "chosen" {
		t.Errorf("%+v, %+v", acme, other)
	}
	if same := organization("o2"); !strings.HasPrefix(same.Slug, "acme-") {
		t.Errorf("a taken slug becomes %q", same.Slug)
	}
	var slugs []string
	for _, w := range read(t, s, func(tx people.Tx) ([]people.Workspace, error) { return tx.Organizations().WorkspacesOf(acme.ID) }) {
		slugs = append(slugs, w.Slug)
	}
	slices.Sort(slugs)
	if len(slugs) != 3 || slugs[0] != "best" || slugs[1] != "main" || !strings.HasPrefix(slugs[2], "main-") {
		t.Errorf("%q", slugs)
	}
	member := func(user int64) people.Member {
		return read(t, s, func(tx people.Tx) (people.Member, error) {
			m, _, err := tx.Organizations().Member(acme.ID, user)
			return m, err
		})
	}
	if owner, clerk := member(ada), member(bob); !owner.Owner || owner.Role != 0 || clerk.Owner || clerk.Role != 23 {
		t.Errorf("%+v, %+v", owner, clerk)
	}
	keys := read(t, s, func(tx people.Tx) ([]people.APIKey, error) {
		return tx.APIKeys().ListAPIKeys(people.APIKeyFilter{Owner: ada}, 10)
	})
	if len(keys) != 1 || keys[0].Workspace != s.rowOf(t, "workspace", "w1") || keys[0].Organization != acme.ID {
		t.Errorf("%+v", keys)
	}
}

func TestImportedEventsCountAtTheirTime(t *testing.T) {
	t.Parallel()
	s := keyWorld(t)
	s.imports(t, "file", 0, movedNow(), "&complete=true")
	day := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	got, err := s.rows.Summarize(t.Context(), "ns/acme", people.Period{From: day, To: day.AddDate(0, 6, 0)}, people.Period{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got.Period != (people.Counts{SignInUsers: 2, SignUps: 2, Organizations: 1, Workspaces: 1}) || got.SignUps != 2 {
		t.Errorf("%+v", got)
	}
	newest, oldest := got.RecentSignIns[0], got.RecentSignIns[2]
	if newest.Method != "sso:google" || newest.Address != "192.0.2.2" || newest.UserAgent != "new" {
		t.Errorf("the recent sign-in: %+v", newest)
	}
	if oldest.Method != "password" || oldest.Address != "" || oldest.UserAgent != "" {
		t.Errorf("a sign-in past the retention of addresses: %+v", oldest)
	}
	if got.RecentSignIns[1].Method != people.MethodImport || got.RecentSignUps[0].Method != people.MethodImport {
		t.Errorf("methods: %+v", got)
	}
}

func TestRepeatedImportChangesNothing(t *testing.T) {
	t.Parallel()
	s := keyWorld(t)
	file := movedNow()
	s.imports(t, "file", 0, file, "&complete=true")
	before, _ := s.rows.Summarize(t.Context(), "ns/acme", people.Period{To: time.Now()}, people.Period{}, 10)
	changed := strings.ReplaceAll(file, "Lovelace", "Byron")
	if got := s.imports(t, "corrected", 0, changed+changed, "&complete=true"); got.Present != 44 || got.Imported != 0 || got.Rejected != 0 {
		t.Fatalf("%+v", got)
	}
	after, _ := s.rows.Summarize(t.Context(), "ns/acme", people.Period{To: time.Now()}, people.Period{}, 10)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("%+v, before %+v", after, before)
	}
	if got := s.imports(t, "twice in one batch", 0, line(`"user","external_id":"new"`)+line(`"user","external_id":"new"`), ""); got.Present != 1 || got.Imported != 1 {
		t.Errorf("a line twice: %+v", got)
	}
}

func line(members string) string { return `{"type":` + members + "}\n" }

func TestInvalidUserLineIsRejectedAlone(t *testing.T) {
	t.Parallel()
	s := keyWorld(t)
	s.imports(t, "before", 0, movedNow(), "")
	at := func(members string) string { return `"signin","external_id":"x","user":"u1","signed_in_at":` + members }
	faulty := []struct{ line, field string }{
		{`"user","external_id":"x","first_name":"` + strings.Repeat("x", 81) + `"`, "/first_name"},
		{`"user","external_id":"x","last_name":7`, "/last_name"},
		{`"user","external_id":"x","disabled":"no"`, "/disabled"},
		{`"user","external_id":"x","password_hash":"md5:secret-hash"`, "/password_hash"},
		{`"user","external_id":"x","password_hash":"$2b$15$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"`, "/password_hash"},
		{`"user","external_id":"x","created_at":"2024-01-01"`, "/created_at"},
		{`"user","external_id":"x","created_at":"2024-01-01T00:00:00"`, "/created_at"},
		{`"user","external_id":"x","email":"a@example.com"`, "/email"},
		{`"user","external_id":"x","external_id":"y"`, "/external_id"},
		{`"user","external_id":""`, "/external_id"},
		{`"user","external_id":null`, "/external_id"},
		{`"email","external_id":"x","email":"x@example.com"`, "/user"},
		{`"email","external_id":"x","user":"later","email":"x@example.com"`, "/user"},
		{`"email","external_id":"x","user":"u1","email":"no address"`, "/email"},
		{`"email","external_id":"x","user":"u2","email":"ADA@example.com"`, "/email"},
		{`"email","external_id":"x","user":"u1","email":"x@example.com","verified_at":"1969-12-31T23:59:59Z"`, "/verified_at"},
		{`"email","external_id":"x","user":"u1","email":"x@example.com","primary":1`, "/primary"},
		{`"phone","external_id":"x","user":"u1","phone_number":"4155552671"`, "/phone_number"},
		{`"phone","external_id":"x","user":"u1","phone_number":"+14155552671"`, "/phone_number"},
		{`"phone","external_id":"x","user":"u2","phone_number":"+14155552672","verified_at":"2024-01-01T00:00:00Z"`, "/phone_number"},
		{`"phone","external_id":"x","user":"u2","phone_number":"+14155552673","primary":true`, "/primary"},
		{`"organization","external_id":"x"`, "/name"},
		{`"organization","external_id":"x","name":"X","slug":"No Slug"`, "/slug"},
		{`"organization","external_id":"x","name":"X","image_url":"javascript:alert(1)"`, "/image_url"},
		{`"organization","external_id":"x","name":"X","description":"` + strings.Repeat("x", 501) + `"`, "/description"},
		{`"workspace","external_id":"x","name":"X"`, "/organization"},
		{`"workspace","external_id":"x","organization":"none","name":"X"`, "/organization"},
		{`"membership","external_id":"x","user":"u1"`, "/organization"},
		{`"membership","external_id":"x","user":"u1","organization":"o2","workspace":"w1"`, "/organization"},
		{`"membership","external_id":"x","user":"u1","organization":"o1"`, "/user"},
		{`"membership","external_id":"x","user":"u1","workspace":"w1"`, "/user"},
		{`"membership","external_id":"x","user":"u2","organization":"o2","role":"none"`, "/role"},
		{`"membership","external_id":"x","user":"u2","workspace":"w1","role":"clerk"`, "/role"},
		{`"membership","external_id":"x","user":"u2","organization":"o2","owner":true,"role":"clerk"`, "/role"},
		{`"signin","external_id":"x","user":"u1"`, "/signed_in_at"},
		{at(`null`), "/signed_in_at"},
		{at(`"1969-12-31T23:59:59.999Z"`), "/signed_in_at"},
		{at(`"2999-01-01T00:00:00Z"`), "/signed_in_at"},
		{at(`"2024-01-01T00:00:00Z","method":"magic"`), "/method"},
		{at(`"2024-01-01T00:00:00Z","method":"sso:Google"`), "/method"},
		{at(`"2024-01-01T00:00:00Z","ip_address":"10.0.0.300"`), "/ip_address"},
		{at(`"2024-01-01T00:00:00Z","ip_address":"fe80::1%eth0"`), "/ip_address"},
		{at(`"2024-01-01T00:00:00Z","user_agent":"` + strings.Repeat("x", 513) + `"`), "/user_agent"},
		{at(`"2024-01-01T00:00:00Z","user_agent":"a\u0000b"`), "/user_agent"},
		{at(`"2024-01-01T00:00:00Z","country":"DE"`), "/country"},
		{`"api_key","external_id":"x","app":"shop","name":"X","sha256":"` + hashOf("x") + `","user":"u2","organization":"o2"`, "/user"},
	}
	lines := line(`"user","external_id":"good"`)
	for _, f := range faulty {
		lines += line(f.line)
	}
	lines += line(`"user","external_id":"later"`) + line(`"workspace","external_id":"fine","organization":"o2","name":"Fine"`)
	got := s.imports(t, "faulty", 0, lines, "&complete=true")
	if got.Imported != 3 || got.Rejected != len(faulty) || got.Present != 0 {
		t.Errorf("imported %d, rejected %d of %d", got.Imported, got.Rejected, len(faulty))
	}
	for i, f := range faulty {
		var fields []string
		for _, rejection := range got.Rejections {
			if rejection.Line == i+2 && rejection.Field != nil {
				fields = append(fields, *rejection.Field)
			}
			if strings.Contains(rejection.Message, "secret-hash") || strings.Contains(rejection.Message, "ADA@") {
				t.Errorf("a message contains a value: %s", rejection.Message)
			}
		}
		if !slices.Contains(fields, f.field) {
			t.Errorf("%.120s: rejected at %q, want %s", f.line, fields, f.field)
		}
	}
	if !slices.IsSortedFunc(got.Rejections, func(a, b struct {
		Line    int
		Field   *string
		Message string
	}) int {
		return a.Line - b.Line
	}) {
		t.Error("the rejections are out of order")
	}
}

// emailsOf returns a user's addresses as "address primary verified", sorted.
func (s served) emailsOf(t *testing.T, user string) (told []string) {
	t.Helper()
	id := s.rowOf(t, "user", user)
	for _, e := range read(t, s, func(tx people.Tx) ([]people.Email, error) { return tx.Users().EmailsOf(id) }) {
		told = append(told, fmt.Sprint(e.Address, " ", e.Primary, " ", !e.VerifiedAt.IsZero()))
	}
	slices.Sort(told)
	return told
}

func emailLine(id, user, address, more string) string {
	return line(`"email","external_id":"` + id + `","user":"` + user + `","email":"` + address + `"` + more)
}

const isProven = `,"verified_at":"2024-01-01T00:00:00Z"`

// An address belongs to the user who verified it, even if an earlier line of the same or another batch gave it to
// another account.
func TestVerifiedAddressReplacesUnverifiedOnes(t *testing.T) {
	t.Parallel()
	users := line(`"user","external_id":"thief"`) + line(`"user","external_id":"owner"`) + line(`"user","external_id":"late"`)
	taken := emailLine("t1", "thief", "owner@example.com", "") + emailLine("t2", "thief", "thief@example.com", "")
	own := emailLine("o1", "owner", "Owner@example.com", isProven)
	later := emailLine("l1", "late", "owner@example.com", "") + emailLine("l2", "late", "owner@example.com", isProven)
	for name, batches := range map[string][]string{"in one batch": {users + taken + own + later}, "in several": {users, taken, own, later}} {
		s := keyWorld(t)
		rejected := 0
		for i, lines := range batches {
			rejected += s.imports(t, fmt.Sprint(i), 0, lines, "&complete=true").Rejected
		}
		if got := s.emailsOf(t, "owner"); rejected != 2 || !slices.Equal(got, []string{"Owner@example.com true true"}) {
			t.Errorf("%s: the owner has %q, rejected %d", name, got, rejected)
		}
		if got := s.emailsOf(t, "thief"); !slices.Equal(got, []string{"thief@example.com true false"}) {
			t.Errorf("%s: the other has %q", name, got)
		}
		if got := s.emailsOf(t, "late"); got != nil {
			t.Errorf("%s: the user who was imported last has %q", name, got)
		}
	}
}

func TestUnverifiedAddressIsNotPrimaryNextToVerified(t *testing.T) {
	t.Parallel()
	first, second := emailLine("a", "u", "a@example.com", ""), emailLine("b", "u", "b@example.com", isProven)
	asked := emailLine("c", "u", "c@example.com", `,"primary":true`)
	want := []string{"a@example.com false false", "b@example.com true true", "c@example.com false false"}
	for name, batches := range map[string][]string{
		"in one batch": {first + second + asked}, "in several": {first, second, asked}, "the proven one first": {second + asked + first}, "last": {first + asked + second},
	} {
		s := keyWorld(t)
		s.imports(t, "user", 0, line(`"user","external_id":"u"`), "")
		for i, lines := range batches {
			s.imports(t, fmt.Sprint(i), 0, lines, "&complete=true")
		}
		if got := s.emailsOf(t, "u"); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestDeletedUserIsNotImportedAgain(t *testing.T) {
	t.Parallel()
	s := keyWorld(t)
	s.imports(t, "file", 0, movedNow(), "")
	id := s.rowOf(t, "user", "u1")
	if err := s.rows.Change(t.Context(), "ns/acme", func(tx people.Tx) error { return tx.Users().DeleteUser(id) }); err != nil {
		t.Fatal(err)
	}
	got := s.imports(t, "again", 0, line(`"user","external_id":"u1"`)+line(`"signin","external_id":"new","user":"u1","signed_in_at":"2024-01-01T00:00:00Z"`)+
		line(`"email","external_id":"new","user":"u1","email":"new@example.com"`)+line(`"api_key","external_id":"new","app":"shop","name":"X","sha256":"`+hashOf("y")+`","user":"u1"`), "")
	if got.Present != 1 || got.Rejected != 3 || got.Imported != 0 {
		t.Errorf("%+v", got)
	}
}

func TestImportedSlugsAvoidPageNames(t *testing.T) {
	t.Parallel()
	s := serveWith(t, nil, nil, fixed(t, "B2BSettings", "b2b", "uid-14", 14, document.B2BKey, time.Now(), document.B2BSettings{Enabled: true}))
	got := s.imports(t, "file", 0, `{"type":"organization","external_id":"o1","name":"New"}
{"type":"organization","external_id":"o2","name":"Other","slug":"invitations"}
`, "&complete=true")
	if got.Imported != 2 {
		t.Fatalf("%+v", got)
	}
	for id, page := range map[string]string{"o1": "new", "o2": "invitations"} {
		o := read(t, s, func(tx people.Tx) (people.Organization, error) {
			o, _, err := tx.Organizations().Organization(s.rowOf(t, people.ImportedOrganization, id))
			return o, err
		})
		if o.Slug == page || !strings.HasPrefix(o.Slug, page+"-") {
			t.Errorf("%s has the slug %q", o.Name, o.Slug)
		}
	}
}

func TestOrganizationsNeedB2B(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	got := s.imports(t, "file", 0, strings.Split(movedNow(), `{"type":"api_key"`)[0], "&complete=true")
	if got.Rejected != 9 || got.Imported != 12 {
		t.Errorf("%+v", got)
	}
}

func TestImportedMembersGetDefaultRole(t *testing.T) {
	t.Parallel()
	s := serveWith(t, nil, nil,
		fixed(t, "B2BSettings", "b2b", "uid-14", 14, document.B2BKey, time.Now(), document.B2BSettings{Enabled: true, OrgRole: "clerk"}),
		fixed(t, "MembershipRole", "clerk", "uid-23", 23, "", time.Now(), document.MembershipRole{Level: "Organization", Name: "Clerk"}))
	s.imports(t, "file", 0, line(`"user","external_id":"u"`)+line(`"organization","external_id":"o","name":"O"`)+line(`"membership","external_id":"m","user":"u","organization":"o"`), "")
	m := read(t, s, func(tx people.Tx) (people.Member, error) {
		m, _, err := tx.Organizations().Member(s.rowOf(t, "organization", "o"), s.rowOf(t, "user", "u"))
		return m, err
	})
	if m.Role != 23 {
		t.Errorf("%+v", m)
	}
}

func TestImportNeedsPermissionOfEveryType(t *testing.T) {
	t.Parallel()
	s := keyWorld(t)
	following(t, s)
	lines := map[string]string{
		"users:write":         line(`"user","external_id":"u"`),
		"organizations:write": line(`"organization","external_id":"o","name":"O"`),
		"api_keys:write":      keyLine("k", "k", ""),
	}
	all := s.key
	for permission := range lines {
		s.key = all
		_, s.key = s.creates(t, "tools", `{"name":"one","permissions":["`+permission+`"]}`)
		for other, text := range lines {
			want := 403
			if other == permission {
				want = 200
			}
			path := "/imports/" + hashOf(permission+other)
			body := s.says(t, "POST", path+"/batches?offset=0", text, want)
			if want == 403 && !strings.Contains(body, other) {
				t.Errorf("%s: %s", other, body)
			}
			s.says(t, "GET", path, "", map[int]int{200: 200, 403: 404}[want])
		}
	}
}
