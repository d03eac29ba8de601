package connections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/people"
)

// keysPerDay is how many keys of connections may be generated in a day for an organization, and for the connections of
// no organization.
const keysPerDay = 20

// keysWithin is how long the generation of a key waits for its turn.
const keysWithin = 5 * time.Second

// ErrKeysBusy means that too many keys are being generated.
var ErrKeysBusy = errors.New("too many keys are being generated")

// Keys generates the keys of a server's connections, each of which takes up to a second of a processor: two at once,
// and one of a deployment.
type Keys struct{ slots *egress.Slots }

// NewKeys returns Keys.
func NewKeys(clock func() time.Time) *Keys {
	return &Keys{egress.NewSlots(egress.Bounds{AtOnce: 2, DeploymentAtOnce: 1}, clock)}
}

// Generate returns a key for a new connection of a deployment, with a certificate for a name. Errors: ErrKeysBusy.
func (k *Keys) Generate(ctx context.Context, deployment, name string, now time.Time) (saml.Key, error) {
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	done, err := k.slots.Begin(ctx, egress.Asker{Deployment: deployment})
	if err != nil {
		return saml.Key{}, fmt.Errorf("%w: %w", ErrKeysBusy, err)
	}
	defer done()
	return saml.GenerateKey(name, now)
}

// CountKey counts a key that is to be generated for a new connection of the scope: it takes about a second of processor
// time. Errors: those of Create that do not depend on its settings, account.WaitError with ErrTooManyKeys.
func (s Scope) CountKey(u *account.Unit) error {
	if err := s.requireNew(u, connection.TypeSAML); err != nil {
		return err
	}
	n, err := u.Limits().Count("connection-keys", strconv.FormatInt(s.Organization.ID, 10), u.Now, u.Now.Add(24*time.Hour))
	if err == nil && n.Count > keysPerDay {
		err = &account.WaitError{Reason: ErrTooManyKeys, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}

// addKey gives a new row of type SAML its key and its entity ID as a service provider.
func addKey(u *account.Unit, row *people.Connection, settings *connection.Settings, wanted New) error {
	if wanted.Origin == "" {
		return ErrNoHost
	}
	if u.Keyring.Empty() {
		return account.ErrCannotSeal
	}
	private, certificate, err := wanted.Key.PEM()
	if err != nil {
		return err
	}
	row.Secrets = u.Keyring.Seal(people.SealedConnection, people.SealedFor(u.Key(), row.ID), private)
	settings.SAML = &connection.SAMLSettings{
		ServiceEntityID: wanted.Origin + translation.ConnectionPath(row.ID) + "/metadata", Certificate: string(certificate),
	}
	return nil
}

// SAMLMetadata returns what is known of the identity provider of a connection of type SAML, nil if nothing is: what was
// stated, or the metadata that was fetched last.
func SAMLMetadata(u *account.Unit, id int64, c *document.ConnectionSAML) (*saml.Metadata, error) {
	if c.Given != nil {
		return saml.OfDocument(*c.Given)
	}
	row, found, err := u.Connections().UpstreamDocument(id, people.UpstreamSAML)
	if err != nil || !found {
		return nil, err
	}
	url, text, _ := strings.Cut(row.Body, "\n")
	var fetched document.SAMLMetadata
	if c.MetadataURL != "" && url != c.MetadataURL || json.Unmarshal([]byte(text), &fetched) != nil {
		return nil, nil
	}
	metadata, err := saml.OfDocument(fetched)
	if err != nil {
		return nil, nil //nolint:nilerr // another version wrote it: servers fetch it again
	}
	return metadata, nil
}
