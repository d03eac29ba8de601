package storetest

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// writes calls each method of a Tx that writes. Each call changes a deployment that furnish has filled.
var writes = map[string]func(tx people.Tx) error{
	"InsertUser": func(tx people.Tx) error { return tx.Users().InsertUser(user(2)) },
	"UpdateUser": func(tx people.Tx) error {
		return tx.Users().UpdateUser(people.User{ID: 1, FirstName: "New", Disabled: true, UpdatedAt: born})
	},
	"SetLastOrganization": func(tx people.Tx) error { return tx.Users().SetLastOrganization(1, 5) },
	"DeleteUser":          func(tx people.Tx) error { return tx.Users().DeleteUser(1) },
	"PutCredential":       func(tx people.Tx) error { return tx.Users().PutCredential(1, people.CredentialPassword, "new", born) },
	"DeleteCredential": func(tx people.Tx) error {
		_, err := tx.Users().DeleteCredential(1, people.CredentialPassword)
		return err
	},

	"InsertPhone": func(tx people.Tx) error { return tx.Phones().InsertPhone(phone(2, 1)) },
	"VerifyPhone": func(tx people.Tx) error { return tx.Phones().VerifyPhone(1, born) },
	"MakePrimary": func(tx people.Tx) error { return tx.Phones().MakePrimary(1, 5) },
	"DeletePhone": func(tx people.Tx) error { return tx.Phones().DeletePhone(1) },

	"InsertSession": func(tx people.Tx) error { s := session(2); s.Anonymous = true; return tx.Sessions().InsertSession(s) },
	"UpdateSession": func(tx people.Tx) error {
		return tx.Sessions().UpdateSession(people.Session{ID: 1, ExpiresAt: after(time.Minute)})
	},
	"EndSession":    func(tx people.Tx) error { return tx.Sessions().EndSession(1) },
	"EndSessionsOf": func(tx people.Tx) error { _, err := tx.Sessions().EndSessionsOf(1); return err },
	"LeaveSession":  func(tx people.Tx) error { return tx.Sessions().LeaveSession(signIn(1, 1, 1)) },
	"InsertToken":   func(tx people.Tx) error { return tx.Sessions().InsertToken(tokenOf(2, 1)) },
	"UseToken":      func(tx people.Tx) error { return tx.Sessions().UseToken(tokenOf(1, 1), born, born) },
	"ReplaceTokens": func(tx people.Tx) error { return tx.Sessions().ReplaceTokens(1, born) },
	"TrimTokens":    func(tx people.Tx) error { return tx.Sessions().TrimTokens(1, nil, 0, born, born) },
	"InsertSignIn":  func(tx people.Tx) error { return tx.Sessions().InsertSignIn(signIn(2, 1, 2)) },
	"DeleteSignIn":  func(tx people.Tx) error { return tx.Sessions().DeleteSignIn(1) },
	"ProveSignIn": func(tx people.Tx) error {
		return tx.Sessions().ProveSignIn(1, assurance.Proofs{}.With(assurance.TOTP, after(time.Hour)), after(time.Hour))
	},
	"SetActiveOrganization": func(tx people.Tx) error { return tx.Sessions().SetActiveOrganization(1, 5, 6) },
	"LeaveOrganization":     func(tx people.Tx) error { return tx.Sessions().LeaveOrganization(1, 1) },

	"InsertAuthorizationRequest": func(tx people.Tx) error {
		return tx.OAuth().InsertAuthorizationRequest(authorizationRequest(2), atMost(9))
	},
	"DeleteAuthorizationRequest": func(tx people.Tx) error { _, err := tx.OAuth().DeleteAuthorizationRequest(hashOf(1)); return err },
	"PutGrant":                   putGrant(grantOf(2, 1)),
	"DeleteGrant":                func(tx people.Tx) error { _, err := tx.OAuth().DeleteGrant(1); return err },
	"InsertTokenFamily":          insertFamily(tokenFamily(2, 1)),
	"UpdateTokenFamily": func(tx people.Tx) error {
		return tx.OAuth().UpdateTokenFamily(people.TokenFamily{ID: 1, ExpiresAt: born})
	},
	"EndOfflineFamilies":      func(tx people.Tx) error { _, err := tx.OAuth().EndOfflineFamilies(1, time.Time{}); return err },
	"EndTokenFamily":          func(tx people.Tx) error { _, err := tx.OAuth().EndTokenFamily(1); return err },
	"InsertAuthorizationCode": insertCode(authorizationCode(2, 1)),
	"RedeemAuthorizationCode": func(tx people.Tx) error { _, err := tx.OAuth().RedeemAuthorizationCode(hashOf(1), born); return err },
	"InsertRefreshToken":      insertRefreshToken(refreshToken(2, 1)),
	"UseRefreshToken":         func(tx people.Tx) error { return tx.OAuth().UseRefreshToken(refreshToken(1, 1), born, born) },
	"InsertDevice":            insertDevice(device(2)),
	"TakeLogouts": func(tx people.Tx) error {
		_, err := tx.OAuth().TakeLogouts(9)
		return errors.Join(err, tx.Sessions().DeleteSignIn(1))
	},
	"InsertOAuthClient": insertOAuthClient(oauthClient(2)),
	"UpdateOAuthClient": func(tx people.Tx) error {
		return tx.OAuthClients().UpdateOAuthClient(people.OAuthClient{App: 1, Client: "client1", Content: "changed"})
	},
	"RenewOAuthClient": func(tx people.Tx) error {
		return tx.OAuthClients().RenewOAuthClient(1, "client1", "n", after(time.Hour))
	},
	"DeleteOAuthClient": func(tx people.Tx) error {
		_, err := tx.OAuthClients().DeleteOAuthClient(1, "client1", after(time.Hour))
		return err
	},
	"UpdateDevice": func(tx people.Tx) error {
		return tx.OAuth().UpdateDevice(people.Device{Hash: hashOf(1), State: people.DeviceDenied})
	},
	"DeleteDevice":      func(tx people.Tx) error { return tx.OAuth().DeleteDevice(hashOf(1)) },
	"TrimRefreshTokens": func(tx people.Tx) error { return tx.OAuth().TrimRefreshTokens(1, nil, people.RefreshBounds{}) },

	"InsertAttempt":   func(tx people.Tx) error { return tx.Attempts().InsertAttempt(attempt(2, 1)) },
	"CompleteAttempt": func(tx people.Tx) error { _, err := tx.Attempts().CompleteAttempt(1); return err },

	"ProveAttempt": func(tx people.Tx) error {
		return tx.Attempts().ProveAttempt(1, assurance.Proofs{}.With(assurance.Password, born), born)
	},
	"EndAttemptsOf": func(tx people.Tx) error { return tx.Attempts().EndAttemptsOf(1) },

	"InsertChallenge":  func(tx people.Tx) error { return tx.Challenges().InsertChallenge(challenge(2, 1)) },
	"CountTry":         func(tx people.Tx) error { _, err := tx.Challenges().CountTry(1, 5, born); return err },
	"ConsumeChallenge": func(tx people.Tx) error { _, err := tx.Challenges().ConsumeChallenge(1, born); return err },
	"VoidChallenges":   func(tx people.Tx) error { return tx.Challenges().VoidChallenges(people.PurposePhone, 1) },
	"LockFailure": func(tx people.Tx) error {
		_, err := tx.Limits().LockFailure("password", "2", after(time.Hour))
		return err
	},
	"PutFailure": func(tx people.Tx) error {
		return tx.Limits().PutFailure(people.Failure{Scope: "password", Subject: "1", Count: 99, UpdatedAt: born})
	},
	"InsertMessage": func(tx people.Tx) error { return tx.Challenges().InsertMessage(message(2)) },
	"Count": func(tx people.Tx) error {
		_, err := tx.Limits().Count("mail", "1", born, after(time.Hour))
		return err
	},
	"Uncount":        func(tx people.Tx) error { return tx.Limits().Uncount("mail", "1", born) },
	"RecordSend":     func(tx people.Tx) error { return tx.Limits().RecordSend(send(2)) },
	"RememberClient": func(tx people.Tx) error { return tx.Limits().RememberClient(1, "192.0.2.2", born) },

	"InsertOrganization":  func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(2)) },
	"SetDefaultWorkspace": func(tx people.Tx) error { return tx.Organizations().SetDefaultWorkspace(1, 5) },
	"UpdateOrganization": func(tx people.Tx) error {
		return tx.Organizations().UpdateOrganization(people.Organization{ID: 1, Name: "New", Required: assurance.Requirement{Level: assurance.TwoFactors, From: born}})
	},
	"DeleteOrganization": func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(1) },
	"RenameWorkspace":    func(tx people.Tx) error { return tx.Organizations().RenameWorkspace(1, "New") },
	"UpdateMember": func(tx people.Tx) error {
		m := member(1, 1, 1)
		m.Role, m.Owner = 9, !m.Owner
		return tx.Organizations().UpdateMember(m)
	},
	"SetWorkspaceMemberRole": func(tx people.Tx) error { return tx.Organizations().SetWorkspaceMemberRole(1, 9) },
	"DeleteWorkspaceMember":  func(tx people.Tx) error { return tx.Organizations().DeleteWorkspaceMember(workspaceMember(1, 1, 1, 1)) },

	"InsertWorkspace":       func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(workspace(2, 1)) },
	"InsertMember":          func(tx people.Tx) error { return tx.Organizations().InsertMember(member(2, 1, 2)) },
	"SetMemberWorkspace":    func(tx people.Tx) error { return tx.Organizations().SetMemberWorkspace(1, 1, 5) },
	"DeleteMember":          func(tx people.Tx) error { _, err := tx.Organizations().DeleteMember(1, 1); return err },
	"InsertWorkspaceMember": func(tx people.Tx) error { return tx.Organizations().InsertWorkspaceMember(workspaceMember(2, 1, 1, 2)) },
	"InsertInvitation":      func(tx people.Tx) error { return tx.Organizations().InsertInvitation(invitation(2, 1)) },
	"AcceptInvitation":      func(tx people.Tx) error { _, err := tx.Organizations().AcceptInvitation(1, born); return err },
	"RevokeInvitation":      func(tx people.Tx) error { _, err := tx.Organizations().RevokeInvitation(1, born); return err },

	"InsertAPIKey": func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(apiKey(2, "two")) },
	"UpdateAPIKey": func(tx people.Tx) error { k := apiKey(1, ""); k.Name = "new"; return tx.APIKeys().UpdateAPIKey(k) },
	"DeleteAPIKey": func(tx people.Tx) error { _, err := tx.APIKeys().DeleteAPIKey(1); return err },

	"LockImport": func(tx people.Tx) error { _, err := tx.Imports().LockImport("two", born); return err },
	"PutImport":  func(tx people.Tx) error { return tx.Imports().PutImport(people.Import{File: "file", Done: 99}) },
	"RecordImported": func(tx people.Tx) error {
		return tx.Imports().RecordImported([]people.ImportedRow{{Kind: people.ImportedAPIKey, ExternalID: "two", ID: 2}})
	},

	"InsertUsers":  func(tx people.Tx) error { u, _ := user(2); return tx.Bulk().InsertUsers([]people.User{u}) },
	"InsertEmails": func(tx people.Tx) error { _, e := user(2); return tx.Bulk().InsertEmails([]people.Email{e}) },
	"VerifyEmail":  func(tx people.Tx) error { return tx.Users().VerifyEmail(1001, after(time.Hour)) },
	"InsertPasswords": func(tx people.Tx) error {
		return tx.Bulk().InsertPasswords([]people.Password{{User: 2, Encoded: "hash", CreatedAt: born}})
	},
	"MakePrimaryEmail":    func(tx people.Tx) error { return tx.Users().MakePrimaryEmail(1, 1003) },
	"DeleteEmail":         func(tx people.Tx) error { return tx.Users().DeleteEmail(1001) },
	"DeleteUnproven":      func(tx people.Tx) error { return tx.Bulk().DeleteUnproven([]int64{1003}) },
	"DemoteEmails":        func(tx people.Tx) error { return tx.Bulk().DemoteEmails([]int64{1001}) },
	"InsertPhones":        func(tx people.Tx) error { return tx.Bulk().InsertPhones([]people.Phone{phone(2, 1)}) },
	"DemotePhones":        func(tx people.Tx) error { return tx.Bulk().DemotePhones([]int64{1}) },
	"InsertOrganizations": func(tx people.Tx) error { return tx.Bulk().InsertOrganizations([]people.Organization{organization(2)}) },
	"InsertWorkspaces":    func(tx people.Tx) error { return tx.Bulk().InsertWorkspaces([]people.Workspace{workspace(2, 1)}) },
	"InsertMembers":       func(tx people.Tx) error { return tx.Bulk().InsertMembers([]people.Member{member(2, 1, 2)}) },
	"InsertWorkspaceMembers": func(tx people.Tx) error {
		return tx.Bulk().InsertWorkspaceMembers([]people.WorkspaceMember{workspaceMember(2, 1, 1, 2)})
	},
	"RecordEvents": func(tx people.Tx) error {
		return tx.Records().RecordEvents([]people.Event{event(2, people.EventSignIn, 1)})
	},

	"SetTwoStep":           func(tx people.Tx) error { return tx.Factors().SetTwoStep(1, true) },
	"SetSecondFactorPhone": func(tx people.Tx) error { return tx.Factors().SetSecondFactorPhone(1, born) },
	"InsertAuthenticator":  func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(authenticator(2, 1)) },
	"ConfirmAuthenticator": func(tx people.Tx) error { _, err := tx.Factors().ConfirmAuthenticator(1, 7, born); return err },
	"SpendStep":            func(tx people.Tx) error { _, err := tx.Factors().SpendStep(1, 7, born); return err },
	"ResealAuthenticator": func(tx people.Tx) error {
		stored, err := tx.Factors().AuthenticatorsOf(1)
		if err != nil {
			return err
		}
		return tx.Factors().ResealAuthenticator(1, stored[0].Sealed, "sealed again")
	},
	"DeleteAuthenticator": func(tx people.Tx) error { _, err := tx.Factors().DeleteAuthenticator(1); return err },
	"InsertPasskey":       func(tx people.Tx) error { return tx.Factors().InsertPasskey(passkey(2, 1)) },
	"UsePasskey": func(tx people.Tx) error {
		return tx.Factors().UsePasskey(people.Passkey{ID: 1, SignCount: 9, BackupEligible: -1, BackedUp: true, Verified: true, UsedAt: born})
	},
	"RenamePasskey":  func(tx people.Tx) error { return tx.Factors().RenamePasskey(1, "new") },
	"DeletePasskey":  func(tx people.Tx) error { _, err := tx.Factors().DeletePasskey(1); return err },
	"SpendChallenge": func(tx people.Tx) error { _, err := tx.Factors().SpendChallenge(hashOf(2), born); return err },
	"ReplaceRecoveryCodes": func(tx people.Tx) error {
		return tx.Factors().ReplaceRecoveryCodes(1, [][]byte{hashOf(2), hashOf(3)}, born)
	},
	"SpendRecoveryCode":   func(tx people.Tx) error { _, err := tx.Factors().SpendRecoveryCode(1, hashOf(1), born); return err },
	"PutTemporaryCode":    func(tx people.Tx) error { return tx.Factors().PutTemporaryCode(temporaryCode(2, 1)) },
	"DeleteTemporaryCode": func(tx people.Tx) error { _, err := tx.Factors().DeleteTemporaryCode(1, 1); return err },

	"RecordEvent": func(tx people.Tx) error { return tx.Records().RecordEvent(event(2, people.EventSignIn, 1)) },
	"RecordAudit": func(tx people.Tx) error { return tx.Records().RecordAudit(audit(2)) },
}

// unseen are the writes whose rows no method of a Tx reads.
var unseen = []string{"InsertMessage", "RecordEvent", "RecordEvents", "SpendChallenge"}

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
		users, total, err := tx.Users().ListUsers("", 10, 0)
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
	"Organization": func(tx people.Tx) (any, error) { return optional(tx.Organizations().Organization(1)) },
	"SlugTaken":    func(tx people.Tx) (any, error) { return value(tx.Organizations().SlugTaken(organization(2).Slug)) },
	"Workspace":    func(tx people.Tx) (any, error) { return optional(tx.Organizations().Workspace(1)) },
	"WorkspacesOf": func(tx people.Tx) (any, error) { return value(tx.Organizations().WorkspacesOf(1)) },
	"OwnersOf":     func(tx people.Tx) (any, error) { return value(tx.Organizations().OwnersOf(1)) },
	"MembersOf":    func(tx people.Tx) (any, error) { return value(tx.Organizations().MembersOf(1, 0, 10)) },
	"MemberByID":   func(tx people.Tx) (any, error) { return optional(tx.Organizations().MemberByID(1, 1)) },
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
	"InvitationByToken":      func(tx people.Tx) (any, error) { return optional(tx.Organizations().InvitationByToken(hashOf(2))) },
	"Invitation":             func(tx people.Tx) (any, error) { return optional(tx.Organizations().Invitation(1)) },
	"OpenInvitations":        func(tx people.Tx) (any, error) { return value(tx.Organizations().OpenInvitations(1, born)) },
	"OwnedOrganizations":     func(tx people.Tx) (any, error) { return value(tx.Organizations().OwnedOrganizations(1)) },
	"SessionsOf":             func(tx people.Tx) (any, error) { return value(tx.Sessions().SessionsOf(1)) },
	"APIKey":                 func(tx people.Tx) (any, error) { return optional(tx.APIKeys().APIKey(1)) },
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
	"DigestTaken": func(tx people.Tx) (any, error) { return value(tx.Imports().DigestTaken(apiKey(9, "nobody's").Digest)) },
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
