package users

import "github.com/cardea-iam/cardea/store/people"

// The groups of a transaction's rows.
type (
	txUsers         struct{ *peopleTx }
	txPhones        struct{ *peopleTx }
	txSessions      struct{ *peopleTx }
	txAttempts      struct{ *peopleTx }
	txChallenges    struct{ *peopleTx }
	txLimits        struct{ *peopleTx }
	txOrganizations struct{ *peopleTx }
	txAPIKeys       struct{ *peopleTx }
	txOAuth         struct{ *peopleTx }
	txOAuthClients  struct{ *peopleTx }
	txImports       struct{ *peopleTx }
	txBulk          struct{ *peopleTx }
	txRecords       struct{ *peopleTx }
	txEventLog      struct{ *peopleTx }
	txListings      struct{ *peopleTx }
	txFactors       struct{ *peopleTx }
	txApprovals     struct{ *peopleTx }
	txConnections   struct{ *peopleTx }
	txIdentities    struct{ *peopleTx }
	txDomains       struct{ *peopleTx }
	txSetupLinks    struct{ *peopleTx }
	txDirectories   struct{ *peopleTx }
	txSCIM          struct{ *peopleTx }
)

// Users implements people.Tx.
func (tx *peopleTx) Users() people.Users { return txUsers{tx} }

// Phones implements people.Tx.
func (tx *peopleTx) Phones() people.Phones { return txPhones{tx} }

// Sessions implements people.Tx.
func (tx *peopleTx) Sessions() people.Sessions { return txSessions{tx} }

// Attempts implements people.Tx.
func (tx *peopleTx) Attempts() people.Attempts { return txAttempts{tx} }

// Challenges implements people.Tx.
func (tx *peopleTx) Challenges() people.Challenges { return txChallenges{tx} }

// Limits implements people.Tx.
func (tx *peopleTx) Limits() people.Limits { return txLimits{tx} }

// Organizations implements people.Tx.
func (tx *peopleTx) Organizations() people.Organizations { return txOrganizations{tx} }

// APIKeys implements people.Tx.
func (tx *peopleTx) APIKeys() people.APIKeys { return txAPIKeys{tx} }

// OAuth implements people.Tx.
func (tx *peopleTx) OAuth() people.OAuth { return txOAuth{tx} }

// OAuthClients implements people.Tx.
func (tx *peopleTx) OAuthClients() people.OAuthClients { return txOAuthClients{tx} }

// Imports implements people.Tx.
func (tx *peopleTx) Imports() people.Imports { return txImports{tx} }

// Bulk implements people.Tx.
func (tx *peopleTx) Bulk() people.Bulk { return txBulk{tx} }

// Approvals implements people.Tx.
func (tx *peopleTx) Approvals() people.Approvals { return txApprovals{tx} }

// Connections implements people.Tx.
func (tx *peopleTx) Connections() people.Connections { return txConnections{tx} }

// Identities implements people.Tx.
func (tx *peopleTx) Identities() people.Identities { return txIdentities{tx} }

// SetupLinks implements people.Tx.
func (tx *peopleTx) SetupLinks() people.SetupLinks { return txSetupLinks{tx} }

// Directories implements people.Tx.
func (tx *peopleTx) Directories() people.Directories { return txDirectories{tx} }

// SCIM implements people.Tx.
func (tx *peopleTx) SCIM() people.SCIM { return txSCIM{tx} }

// Domains implements people.Tx.
func (tx *peopleTx) Domains() people.Domains { return txDomains{tx} }

// Records implements people.Tx.
func (tx *peopleTx) Records() people.Records { return txRecords{tx} }

// EventLog implements people.Tx.
func (tx *peopleTx) EventLog() people.EventLog { return txEventLog{tx} }

// Webhooks implements people.Tx.
func (tx *peopleTx) Webhooks() people.Webhooks { return txWebhooks{tx} }

// Listings implements people.Tx.
func (tx *peopleTx) Listings() people.Listings { return txListings{tx} }

// Factors implements people.Tx.
func (tx *peopleTx) Factors() people.Factors { return txFactors{tx} }
