package people

import (
	"context"
	"time"
)

// LoggedEvent is a change of a deployment that programs learn of.
type LoggedEvent struct {
	// Sequence is dense from 1 within the deployment, in the order in which the changes of each entity happened. 0: the
	// event has no number yet.
	Sequence int64
	// ID is unique within the deployment. The event gets it with its number.
	ID int64
	At time.Time
	// Type and Version name the form of Data, such as "user.created" and 1.
	Type    string
	Version int64
	// Actor is that of the audit, such as "user:1".
	Actor string
	// SubjectType and SubjectID name the changed entity, such as "user" and "1".
	SubjectType, SubjectID string
	// Organization and Workspace are those in which the change happened, 0 for none.
	Organization, Workspace int64
	// Data is a JSON object of a few ids and names, "" for none.
	Data string
}

// EventBounds are the numbers of the oldest and of the newest event that a deployment's log has, 0 for an empty log.
type EventBounds struct{ First, Last int64 }

// EventPerson is what events say of a user on request: the primary address and number, "" for none.
type EventPerson struct{ Email, FirstName, LastName, Phone string }

// EventSubjects are the ids of users, of their addresses, numbers and sign-ins, and of invitations.
type EventSubjects struct{ Users, Emails, Phones, SignIns, Invitations []int64 }

// EventClient is the client of a sign-in.
type EventClient struct{ Address, UserAgent string }

// EventPeople are personal data by the ids of EventSubjects.
type EventPeople struct {
	Users                       map[int64]EventPerson
	Emails, Phones, Invitations map[int64]string
	SignIns                     map[int64]EventClient
}

// NumberedEvent is an event that got its number.
type NumberedEvent struct {
	Type string
	At   time.Time
}

// EventLog numbers, reads and deletes the events of a deployment. Records.LogEvents writes them.
type EventLog interface {
	// NumberEvents gives the next numbers to up to limit events, in the order in which they were recorded, and returns
	// these events. Transactions that do it at the same time wait for each other.
	NumberEvents(limit int) ([]NumberedEvent, error)
	// EventsAfter returns up to limit events with a larger number, in the order of their numbers.
	EventsAfter(sequence int64, limit int) ([]LoggedEvent, error)
	// LoggedEvent returns an event that has a number.
	LoggedEvent(id int64) (LoggedEvent, bool, error)
	// LoggedEvents returns those events that have numbers, in the order of their numbers.
	LoggedEvents(ids []int64) ([]LoggedEvent, error)
	EventBounds() (EventBounds, error)
	// EventNumbered returns the id and the time of the event with a number.
	EventNumbered(sequence int64) (id int64, at time.Time, found bool, err error)
	// EventPeople returns the personal data that the store has of subjects, of invitations while they are not accepted.
	// The address of an accepted invitation belongs to a user, and that user may be erased before the invitation is.
	EventPeople(EventSubjects) (EventPeople, error)
	// ForgetEvents deletes up to limit numbered events, the oldest first, up to the first one that did not happen before a
	// time, and returns how many. The newest event stays.
	ForgetEvents(before time.Time, limit int) (int64, error)
}

// ExpiryEvents makes the events of rows that Purge ends because their time is over. They are recorded with the end.
type ExpiryEvents interface {
	SignIn(SignIn) (LoggedEvent, error)
	Invitation(Invitation) (LoggedEvent, error)
	Approval(Approval) (LoggedEvent, error)
	Client(OAuthClient) (LoggedEvent, error)
	Key(APIKey) (LoggedEvent, error)
}

// Unnumbered is a deployment with events that have no number yet. Oldest is the time of the event that was recorded
// first.
type Unnumbered struct {
	Deployment string
	Oldest     time.Time
}

// EventUpkeep finds the deployments whose events are due.
type EventUpkeep interface {
	// UnnumberedEvents returns the deployments with events that have no number yet.
	UnnumberedEvents(ctx context.Context) ([]Unnumbered, error)
	// EventSignals is store.Feed.Signals for events. It receives after this process recorded events, and after any
	// process gave them numbers. Events that another process recorded send no signal before they have numbers.
	EventSignals(ctx context.Context) <-chan struct{}
	// AgedEvents returns the deployments whose oldest numbered event, of at least two, happened before a time.
	AgedEvents(ctx context.Context, before time.Time) ([]string, error)
}
