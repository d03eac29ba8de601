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
	"UpdateAttempt": func(tx people.Tx) error {
		a := attempt(1, 1)
		a.Email = "another@example.com"
		_, err := tx.Attempts().UpdateAttempt(a)
		return err
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

	"SetPendingNotices":    func(tx people.Tx) error { return tx.Organizations().SetPendingNotices(1, 7) },
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
		_, err = tx.Factors().ResealAuthenticator(1, stored[0].Sealed, "sealed again")
		return err
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

	"InsertApproval": insertApproval(approval(2)),
	"DecideApproval": func(tx people.Tx) error {
		_, err := tx.Approvals().DecideApproval(approval(1).ID, people.ApprovalApproved, 1, after(time.Second), after(time.Minute))
		return err
	},
	"UseApproval": func(tx people.Tx) error {
		_, err := tx.Approvals().DecideApproval(approval(1).ID, people.ApprovalApproved, 1, after(time.Second), after(time.Minute))
		if err == nil {
			_, err = tx.Approvals().UseApproval(approval(1).ID, after(time.Second))
		}
		return err
	},
	"FreeApproval": func(tx people.Tx) error {
		_, err := tx.Approvals().FreeApproval(approval(1).ID, after(24*time.Hour))
		return err
	},

	"InsertToolCall": insertToolCall(toolCall(2)),
	"RecordToolCalls": func(tx people.Tx) error {
		_, err := tx.Records().RecordToolCalls([]people.ToolCall{toolCall(1), toolCall(2)})
		return err
	},
	"SettleToolCalls": func(tx people.Tx) error {
		_, err := tx.Records().SettleToolCalls([]people.ToolCall{toolCall(1)})
		return err
	},
	"ReceiveToolResult": func(tx people.Tx) error { _, err := tx.Records().ReceiveToolResult(toolCall(1)); return err },
	"ForgetToolResult": func(tx people.Tx) error {
		_, err := tx.Records().SettleToolCalls([]people.ToolCall{toolCall(1)})
		if err == nil {
			err = tx.Records().ForgetToolResult(toolCall(1).ID)
		}
		return err
	},

	"RecordEvent": func(tx people.Tx) error { return tx.Records().RecordEvent(event(2, people.EventSignIn, 1)) },
	"RecordAudit": func(tx people.Tx) error { return tx.Records().RecordAudit(audit(2)) },
}

// unseen are the writes whose rows no method of a Tx reads.
var unseen = []string{"InsertMessage", "RecordEvent", "RecordEvents", "SpendChallenge", "LogEvents"}
