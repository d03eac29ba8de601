package events

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// MaxData is the largest size of an event's data in the store, in bytes of JSON.
	MaxData = 16 << 10
	// maxList is the largest size of a list in it. The other members fit beside it: a client_id has at most 2,048 bytes.
	maxList = 12 << 10
)

// Event is a change that is not recorded yet.
type Event struct {
	Type Type
	// Subject is the id of the changed entity, and Named that of one whose id is a text.
	Subject int64
	Named   string
	// Organization and Workspace are those in which the change happened, 0 for none.
	Organization, Workspace int64
	Data                    Data
}

// Log returns the event in the form in which it is stored. It fails if the type is unknown, if the data lack a member
// that the type has, if a member has another value than its type has, or if the data are larger than MaxData.
func (e Event) Log(at time.Time, actor string) (people.LoggedEvent, error) {
	entry, found := Find(e.Type)
	subject := e.Named
	if e.Subject != 0 {
		subject = ids.Format(e.Subject)
	}
	if !found || subject == "" {
		return people.LoggedEvent{}, fmt.Errorf("event %s: the catalogue has no such type, or the event has no subject", e.Type)
	}
	data := map[string]any{}
	for _, m := range entry.Members {
		value, has := m.of(&e.Data)
		if !has && !m.Optional {
			return people.LoggedEvent{}, fmt.Errorf("event %s: the data lack %s", e.Type, m.Name)
		}
		if text, is := value.(string); has && is && len(m.Values) > 0 && !slices.Contains(m.Values, text) {
			return people.LoggedEvent{}, fmt.Errorf("event %s: %s has no value %q", e.Type, m.Name, text)
		}
		if has {
			data[m.Name] = value
		}
	}
	text := ""
	if len(data) > 0 {
		raw, err := encode(data)
		if err != nil {
			return people.LoggedEvent{}, fmt.Errorf("event %s: %w", e.Type, err)
		}
		text = string(raw)
	}
	if len(text) > MaxData {
		return people.LoggedEvent{}, fmt.Errorf("event %s: the data have %d bytes; at most %d are allowed", e.Type, len(text), MaxData)
	}
	return people.LoggedEvent{
		At: at, Type: string(e.Type), Version: entry.Version, Actor: impersonal(actor), SubjectType: e.subjectType(), SubjectID: subject,
		Organization: e.Organization, Workspace: e.Workspace, Data: text,
	}, nil
}

// subjectType returns the kind of the changed entity. Memberships of organizations and of workspaces can have one id.
func (e Event) subjectType() string {
	if e.Data.Level == LevelWorkspace {
		return "workspace_membership"
	}
	return e.Type.Subject()
}

// impersonal returns an actor without an address: the subject of a token can be one. The digest that replaces it is the
// same in all events.
func impersonal(actor string) string {
	kind, id, _ := strings.Cut(actor, ":")
	if !strings.Contains(id, "@") {
		return actor
	}
	digest := sha256.Sum256([]byte(id))
	return kind + ":" + hex.EncodeToString(digest[:8])
}
