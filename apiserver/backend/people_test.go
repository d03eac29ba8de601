package backend

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// newPerson creates a user with a session that was used last at a time.
func (s served) newPerson(t *testing.T, used time.Time) people.User {
	t.Helper()
	user := people.User{ID: 7, CreatedAt: used, UpdatedAt: used, Email: "ada@example.com"}
	err := s.rows.Change(t.Context(), "ns/acme", func(tx people.Tx) error {
		if err := tx.Users().InsertUser(user, people.Email{ID: 7, User: 7, Address: user.Email, Primary: true, CreatedAt: used}); err != nil {
			return err
		}
		if err := tx.Sessions().InsertSession(people.Session{ID: 8, ActiveSignIn: 9, CreatedAt: used, UsedAt: used, ExpiresAt: used.Add(7 * 24 * time.Hour)}); err != nil {
			return err
		}
		return tx.Sessions().InsertSignIn(people.SignIn{ID: 9, Session: 8, User: 7, Method: people.MethodPassword, CreatedAt: used})
	})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func (s served) people(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// A user's list of sessions omits sessions that can no longer be used.
func TestIdleSessionsAreNotListed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		idle time.Duration
		want int
	}{"in use": {time.Hour, 1}, "idle for longer than the deployment allows": {25 * time.Hour, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil)
			user := s.newPerson(t, time.Now().Add(-tc.idle))
			w := s.people("GET", "/users/"+ids.Format(user.ID)+"/sessions", "")
			if w.Code != http.StatusOK || strings.Count(w.Body.String(), "signin_id") != tc.want {
				t.Errorf("%d %s, want %d sessions", w.Code, w.Body, tc.want)
			}
		})
	}
}

// A fault of the body comes before a missing object, and that before an unsuitable state, as in every operation.
func TestPasswordRefusalReportsFirstReason(t *testing.T) {
	t.Parallel()
	s := serveWith(t, nil, nil, fixed(t, "IdentityDeployment", "acme", "uid-1", 7, "acme", time.Now(), document.Deployment{
		ManagementWrites: "Enabled", FieldConflicts: "Reject", SignIn: &document.SignInSettings{EmailCode: true, PasswordMinLength: 15},
	}))
	user := s.newPerson(t, time.Now())
	for _, tc := range []struct {
		id, body string
		want     int
	}{
		{ids.Format(user.ID), `{}`, 400}, {ids.Format(user.ID), `{"password":"kxq vhb wzn pfm rty","x":1}`, 400},
		{"1", `{"password":"kxq vhb wzn pfm rty"}`, 404}, {"x", `{"password":"kxq vhb wzn pfm rty"}`, 404},
		{ids.Format(user.ID), `{"password":"kxq vhb wzn pfm rty"}`, 409},
	} {
		if w := s.people("PUT", "/users/"+tc.id+"/password", tc.body); w.Code != tc.want {
			t.Errorf("%s %s: %d %s, want %d", tc.id, tc.body, w.Code, w.Body, tc.want)
		}
	}
}
