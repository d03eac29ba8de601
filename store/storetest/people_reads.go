package storetest

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// optional returns a row, or nil if there is none.
func optional[T any](row T, found bool, err error) (any, error) {
	if !found {
		return nil, err
	}
	return row, err
}

func value[T any](v T, err error) (any, error) { return v, err }

// reads calls each method of a Tx that reads. The calls find the rows that furnish and the writes leave.
var reads = map[string]func(tx people.Tx) (any, error){
	"User":        func(tx people.Tx) (any, error) { return optional(tx.Users().User(1)) },
	"UserByEmail": func(tx people.Tx) (any, error) { return optional(tx.Users().UserByEmail("person2@example.com")) },
	"ListUsers": func(tx people.Tx) (any, error) {
		users, total, err := tx.Users().ListUsers(people.UserFilter{}, 10, 0)
		return []any{users, total}, err
	},
	"Credential": func(tx people.Tx) (any, error) {
		one, _, err := tx.Users().Credential(1, people.CredentialPassword)
		two, _, more := tx.Users().Credential(2, people.CredentialPassword)
		return []string{one, two}, errors.Join(err, more)
	},
	"AuthorizationRequest": func(tx people.Tx) (any, error) {
		one, _, err := tx.OAuth().AuthorizationRequest(hashOf(1))
		two, _, more := tx.OAuth().AuthorizationRequest(hashOf(2))
		return []people.AuthorizationRequest{one, two}, errors.Join(err, more)
	},
	"Grant":    func(tx people.Tx) (any, error) { return optional(tx.OAuth().Grant(1)) },
	"GrantsOf": func(tx people.Tx) (any, error) { return value(tx.OAuth().GrantsOf(1)) },
	"ListGrants": func(tx people.Tx) (any, error) {
		return value(tx.OAuth().ListGrants(people.GrantFilter{App: 1}, 9))
	},
	"ListOAuthClients": func(tx people.Tx) (any, error) {
		return value(tx.OAuthClients().ListOAuthClients(1, people.OAuthClientPlace{}, 9))
	},
	"TokenFamily": func(tx people.Tx) (any, error) {
		one, _, err := tx.OAuth().TokenFamily(1)
		two, _, more := tx.OAuth().TokenFamily(2)
		return []people.TokenFamily{one, two}, errors.Join(err, more)
	},
	"AuthorizationCode": func(tx people.Tx) (any, error) {
		one, _, err := tx.OAuth().AuthorizationCode(hashOf(1))
		two, _, more := tx.OAuth().AuthorizationCode(hashOf(2))
		return []people.AuthorizationCode{one, two}, errors.Join(err, more)
	},
	"RefreshToken": func(tx people.Tx) (any, error) {
		one, _, err := tx.OAuth().RefreshToken(hashOf(1))
		two, _, more := tx.OAuth().RefreshToken(hashOf(2))
		return []people.RefreshToken{one, two}, errors.Join(err, more)
	},
	"Device":           func(tx people.Tx) (any, error) { return optional(tx.OAuth().Device(hashOf(1))) },
	"DeviceByUserCode": func(tx people.Tx) (any, error) { return optional(tx.OAuth().DeviceByUserCode(device(2).UserCode)) },
	"OAuthClient":      func(tx people.Tx) (any, error) { return optional(tx.OAuthClients().OAuthClient(1, "client1")) },
	"OAuthClientAlike": func(tx people.Tx) (any, error) { return optional(tx.OAuthClients().OAuthClientAlike(1, hashOf(2))) },
	"UnusedOAuthClients": func(tx people.Tx) (any, error) {
		count, oldest, err := tx.OAuthClients().UnusedOAuthClients(1, "")
		return []any{count, oldest}, err
	},
	"UsedOAuthClients": func(tx people.Tx) (any, error) {
		count, oldest, err := tx.OAuthClients().UsedOAuthClients(1, "")
		return []any{count, oldest}, err
	},
	"LargestClientNetwork": func(tx people.Tx) (any, error) { return tx.OAuthClients().LargestClientNetwork(1, false) },
	"UngrantedOAuthClient": func(tx people.Tx) (any, error) { return optional(tx.OAuthClients().UngrantedOAuthClient(1)) },
	"SessionOfSignIn":      func(tx people.Tx) (any, error) { return optional(tx.OAuth().SessionOfSignIn(1)) },

	"Phone":          func(tx people.Tx) (any, error) { return optional(tx.Phones().Phone(1)) },
	"PhonesOf":       func(tx people.Tx) (any, error) { return value(tx.Phones().PhonesOf(1)) },
	"PhoneOwner":     func(tx people.Tx) (any, error) { return optional(tx.Phones().PhoneOwner(phone(1, 1).Number)) },
	"SessionByToken": func(tx people.Tx) (any, error) { return both(tx.Sessions().SessionByToken) },
	"PendingFrom":    func(tx people.Tx) (any, error) { return value(tx.Sessions().PendingFrom("192.0.2.1", born)) },
	"SignInsOf": func(tx people.Tx) (any, error) {
		first, err := tx.Sessions().SignInsOf(1)
		second, more := tx.Sessions().SignInsOf(2)
		return append(first, second...), errors.Join(err, more)
	},
	"Attempt":    func(tx people.Tx) (any, error) { return optional(tx.Attempts().Attempt(1)) },
	"AttemptsOf": func(tx people.Tx) (any, error) { return value(tx.Attempts().AttemptsOf(1, born)) },
	"LiveChallenge": func(tx people.Tx) (any, error) {
		return optional(tx.Challenges().LiveChallenge(people.PurposePhone, 1))
	},
	"Failure": func(tx people.Tx) (any, error) { return value(tx.Limits().Failure("password", "1")) },
	"Counted": func(tx people.Tx) (any, error) { return value(tx.Limits().Counted("mail", "1", born)) },
	"Sends": func(tx people.Tx) (any, error) {
		return value(tx.Limits().Sends(people.SendFilter{Channel: people.ChannelSMS}, born))
	},
	"SendsOn": func(tx people.Tx) (any, error) { return value(tx.Limits().SendsOn(people.ChannelSMS, "US", born)) },
	"KnownClient": func(tx people.Tx) (any, error) {
		return value(tx.Limits().KnownClient(1, "192.0.2.2", born.Add(-time.Hour)))
	},
	"OrganizationBySlug": func(tx people.Tx) (any, error) {
		return optional(tx.Organizations().OrganizationBySlug(organization(1).Slug))
	},
	"Organization": func(tx people.Tx) (any, error) { return optional(tx.Organizations().Organization(1)) },
	"NoticesAfter": func(tx people.Tx) (any, error) { return value(tx.Organizations().NoticesAfter(1)) },
	"SlugTaken":    func(tx people.Tx) (any, error) { return value(tx.Organizations().SlugTaken(organization(2).Slug)) },
	"Workspace":    func(tx people.Tx) (any, error) { return optional(tx.Organizations().Workspace(1)) },
	"WorkspacesOf": func(tx people.Tx) (any, error) { return value(tx.Organizations().WorkspacesOf(1)) },
	"OwnersOf":     func(tx people.Tx) (any, error) { return value(tx.Organizations().OwnersOf(1)) },
	"MembersOf":    func(tx people.Tx) (any, error) { return value(tx.Organizations().MembersOf(1, 0, 10)) },
	"FactorLevelsOf": func(tx people.Tx) (any, error) {
		return value(tx.Organizations().FactorLevelsOf(1, 0, 10, people.FactorFilter{RelyingParty: "acme.example", Passwords: true}))
	},
	"MemberByID": func(tx people.Tx) (any, error) { return optional(tx.Organizations().MemberByID(1, 1)) },
	"WorkspaceMembersOf": func(tx people.Tx) (any, error) {
		return value(tx.Organizations().WorkspaceMembersOf(1, 0, 10))
	},
	"WorkspaceMemberByID": func(tx people.Tx) (any, error) { return optional(tx.Organizations().WorkspaceMemberByID(1, 1)) },
	"EndedSignIns":        func(tx people.Tx) (any, error) { return value(tx.Sessions().EndedSignIns(1, 10)) },
	"EmailsAt":            func(tx people.Tx) (any, error) { return value(tx.Users().EmailsAt("person2@example.com")) },
	"Member":              func(tx people.Tx) (any, error) { return optional(tx.Organizations().Member(1, 2)) },
	"MembershipsOf":       func(tx people.Tx) (any, error) { return value(tx.Organizations().MembershipsOf(1)) },
	"WorkspaceMember": func(tx people.Tx) (any, error) {
		return optional(tx.Organizations().WorkspaceMember(1, 2))
	},
	"WorkspaceMembershipsOf": func(tx people.Tx) (any, error) { return value(tx.Organizations().WorkspaceMembershipsOf(1, 0)) },
	"MemberWithWorkspaces": func(tx people.Tx) (any, error) {
		m, in, found, err := tx.Organizations().MemberWithWorkspaces(1, 2)
		return []any{m, in, found}, err
	},
	"InvitationByToken":  func(tx people.Tx) (any, error) { return optional(tx.Organizations().InvitationByToken(hashOf(2))) },
	"Invitation":         func(tx people.Tx) (any, error) { return optional(tx.Organizations().Invitation(1)) },
	"OpenInvitations":    func(tx people.Tx) (any, error) { return value(tx.Organizations().OpenInvitations(1, born)) },
	"OwnedOrganizations": func(tx people.Tx) (any, error) { return value(tx.Organizations().OwnedOrganizations(1)) },
	"SessionsOf":         func(tx people.Tx) (any, error) { return value(tx.Sessions().SessionsOf(1)) },
	"APIKey":             func(tx people.Tx) (any, error) { return optional(tx.APIKeys().APIKey(1)) },
	"APIKeyByPublicID": func(tx people.Tx) (any, error) {
		return optional(tx.APIKeys().APIKeyByPublicID(apiKey(2, "two").PublicID))
	},
	"ListAPIKeys": func(tx people.Tx) (any, error) {
		return value(tx.APIKeys().ListAPIKeys(people.APIKeyFilter{App: "shop"}, 10))
	},
	"Import": func(tx people.Tx) (any, error) {
		one, _, err := tx.Imports().Import("file")
		two, _, more := tx.Imports().Import("two")
		return []people.Import{one, two}, errors.Join(err, more)
	},
	"UnfinishedImports": func(tx people.Tx) (any, error) { return value(tx.Imports().UnfinishedImports()) },
	"ImportedAs": func(tx people.Tx) (any, error) {
		return value(tx.Imports().ImportedAs(people.ImportedAPIKey, []string{"two"}))
	},
	"AuthenticatorsOf": func(tx people.Tx) (any, error) { return value(tx.Factors().AuthenticatorsOf(1)) },
	"PasskeysOf":       func(tx people.Tx) (any, error) { return value(tx.Factors().PasskeysOf(1)) },
	"PasskeyByCredential": func(tx people.Tx) (any, error) {
		return optional(tx.Factors().PasskeyByCredential("acme.example", hashOf(2)))
	},
	"RecoveryCodesOf": func(tx people.Tx) (any, error) { return value(tx.Factors().RecoveryCodesOf(1)) },
	"HasRecoveryCode": func(tx people.Tx) (any, error) {
		found, used, err := tx.Factors().HasRecoveryCode(1, hashOf(1))
		return []bool{found, used}, err
	},
	"TemporaryCode": func(tx people.Tx) (any, error) { return optional(tx.Factors().TemporaryCode(1)) },
	"Email":         func(tx people.Tx) (any, error) { return optional(tx.Users().Email("person2@example.com")) },
	"EmailsOf": func(tx people.Tx) (any, error) {
		first, err := tx.Users().EmailsOf(1)
		second, more := tx.Users().EmailsOf(2)
		return append(first, second...), errors.Join(err, more)
	},
	"UsersAmong": func(tx people.Tx) (any, error) { return value(tx.Bulk().UsersAmong([]int64{1, 2})) },
	"EmailsAmong": func(tx people.Tx) (any, error) {
		return value(tx.Bulk().EmailsAmong([]string{"person1@example.com", "person2@example.com"}))
	},
	"PrimaryEmails":      func(tx people.Tx) (any, error) { return value(tx.Bulk().PrimaryEmails([]int64{1, 2})) },
	"PhonesAmong":        func(tx people.Tx) (any, error) { return value(tx.Bulk().PhonesAmong([]int64{1}, nil)) },
	"OrganizationsAmong": func(tx people.Tx) (any, error) { return value(tx.Bulk().OrganizationsAmong([]int64{1, 2})) },
	"SlugsTaken":         func(tx people.Tx) (any, error) { return value(tx.Bulk().SlugsTaken([]string{organization(2).Slug})) },
	"WorkspacesAmong":    func(tx people.Tx) (any, error) { return value(tx.Bulk().WorkspacesAmong([]int64{1, 2})) },
	"WorkspaceSlugsTaken": func(tx people.Tx) (any, error) {
		return value(tx.Bulk().WorkspaceSlugsTaken([]int64{1}, []string{workspace(1, 1).Slug, workspace(2, 1).Slug}))
	},
	"MembershipsAmong": func(tx people.Tx) (any, error) {
		organizations, workspaces, err := tx.Bulk().MembershipsAmong([]int64{1, 2})
		return []any{organizations, workspaces}, err
	},
	"ListOrganizations": func(tx people.Tx) (any, error) {
		found, total, err := tx.Listings().ListOrganizations("", 10, 0)
		return []any{found, total}, err
	},
	"ListAudit": func(tx people.Tx) (any, error) { return value(tx.Listings().ListAudit(people.AuditFilter{}, 10)) },
	// DigestTaken reads all deployments, so this call uses a digest that no story inserts.
	"DigestTaken":      func(tx people.Tx) (any, error) { return value(tx.Imports().DigestTaken(apiKey(9, "unused").Digest)) },
	"Approval":         func(tx people.Tx) (any, error) { return optional(tx.Approvals().Approval(approval(1).ID)) },
	"LiveApproval":     func(tx people.Tx) (any, error) { return optional(tx.Approvals().LiveApproval(approval(1).Key)) },
	"PendingApprovals": func(tx people.Tx) (any, error) { return value(tx.Approvals().PendingApprovals(1, 1, "ck_1", born)) },
	"ListApprovals": func(tx people.Tx) (any, error) {
		return value(tx.Approvals().ListApprovals(people.ApprovalFilter{User: 1}, 10))
	},
	"ToolCall":        func(tx people.Tx) (any, error) { return optional(tx.Records().ToolCall(toolCall(1).ID)) },
	"ToolCallOutcome": func(tx people.Tx) (any, error) { return tx.Records().ToolCallOutcome(toolCall(1).ID) },
	"ListToolCalls": func(tx people.Tx) (any, error) {
		return value(tx.Records().ListToolCalls(people.ToolCallFilter{Agent: 1}, 10))
	},
	"SummarizeToolCalls": func(tx people.Tx) (any, error) {
		return value(tx.Records().SummarizeToolCalls(1, people.Period{From: born, To: after(time.Hour)}))
	},
	"InvitationsSince": func(tx people.Tx) (any, error) {
		to, by, err := tx.Organizations().InvitationsSince("guest1@example.com", 1, born)
		return []int{to, by}, err
	},
}

// locks calls each method of a Tx that reads and locks an existing row.
var locks = map[string]func(tx people.Tx) (any, error){
	"LockUsers":        func(tx people.Tx) (any, error) { return value(tx.Bulk().LockUsers([]int64{2, 1})) },
	"LockUser":         func(tx people.Tx) (any, error) { return optional(tx.Users().LockUser(1)) },
	"LockSession":      func(tx people.Tx) (any, error) { return both(tx.Sessions().LockSession) },
	"LockOAuthClient":  func(tx people.Tx) (any, error) { return optional(tx.OAuthClients().LockOAuthClient(1, "client1")) },
	"LockDevice":       func(tx people.Tx) (any, error) { return optional(tx.OAuth().LockDevice(hashOf(1))) },
	"LockTokenFamily":  func(tx people.Tx) (any, error) { return optional(tx.OAuth().LockTokenFamily(1)) },
	"LockAPIKey":       func(tx people.Tx) (any, error) { return optional(tx.APIKeys().LockAPIKey(1)) },
	"LockOrganization": func(tx people.Tx) (any, error) { return optional(tx.Organizations().LockOrganization(1)) },
	"Lock":             func(tx people.Tx) (any, error) { return nil, tx.Limits().Lock("name") },
}

// both reads the sessions of the tokens 1 and 2, if they exist.
func both(read func([]byte) (people.Session, bool, error)) (any, error) {
	var found []people.Session
	for n := range int64(2) {
		s, ok, err := read(hashOf(n + 1))
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, s)
		}
	}
	return found, nil
}
