package messages

import "strconv"

// The sentences with which AccountChangeMail notifies the owner of an account of changes of its factors.
const (
	AuthenticatorAdded   = "An authenticator app was added to your account."
	AuthenticatorRemoved = "An authenticator app was removed from your account."
	PasskeyAdded         = "A passkey was added to your account."
	PasskeyRemoved       = "A passkey was removed from your account."
	TextFactorAdded      = "A phone number was added to your account as a second factor."
	TextFactorRemoved    = "A phone number is no longer a second factor of your account."
	TwoStepOn            = "Sign-in with two steps was turned on for your account."
	TwoStepOnWithCodes   = "Sign-in with two steps was turned on for your account, and recovery codes were made."
	TwoStepOff           = "Sign-in with two steps was turned off for your account."
	RecoveryCodesMade    = "New recovery codes were made for your account. The earlier ones no longer work."
	TemporaryCodeMade    = "The support of the service made a temporary code for your account, which replaces your second factor once."
	TemporaryCodeUsed    = "The temporary code of your account was used to sign in."
	// AuthenticatorWithdrawn and PasskeyWithdrawn notify of a removal by the tenant's help desk.
	AuthenticatorWithdrawn = "The support of the service removed an authenticator app from your account."
	PasskeyWithdrawn       = "The support of the service removed a passkey from your account."
	FactorsReset           = "The support of the service removed all second factors and passkeys of your account, and ended all your sessions."
	CounterRegressed       = "A passkey of your account was refused: it was used in a way that can mean that it was copied."
	SecondStepFailing      = "The right first factor of your account, such as your password, was entered, and then several wrong codes. " +
		"If it was not you, another person knows your password: change it."
)

// RecoveryCodeUsed is the sentence about a used recovery code; left is how many remain.
func RecoveryCodeUsed(left int) string {
	switch left {
	case 0:
		return "A recovery code of your account was used. It was the last one: make new ones."
	case 1:
		return "A recovery code of your account was used. One is left."
	}
	return "A recovery code of your account was used. " + strconv.Itoa(left) + " are left."
}
