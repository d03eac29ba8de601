// Package messages writes the mails and texts that users receive, in plain text. The names in them are made harmless:
// they hold neither a link nor more than four digits, so that the only code, or token, in a message is Cardea's.
package messages

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/text"
)

// withCode returns the beginning of a mail with a code. what is the action that the code permits, such as "sign in to
// Acme".
func withCode(what, code string) string {
	return "Your code to " + what + " is:\n\n" + code + "\n\nIt is valid for 10 minutes. Do not give it to anyone: the service will never ask you for it.\n"
}

// codeMail returns a mail with a code. The mail says that a user who did not request the code may ignore it.
func codeMail(subject, what, code, done, otherwise string) delivery.Content {
	return delivery.Content{Subject: subject, Body: withCode(what, code) + "If you have not " + done + ", ignore this mail; " + otherwise + ".\n"}
}

// SignUpMail brings the code that proves a new account's address. The code is six digits.
func SignUpMail(app, code string) delivery.Content {
	app = plainName(app, "your new account")
	return codeMail("Your sign-up code for "+app, "complete the sign-up for "+app, code, "signed up", "no account is made without the code")
}

// SignInMail brings the code that signs in. The code is six digits.
func SignInMail(app, code string) delivery.Content {
	app = plainName(app, "your account")
	return codeMail("Your sign-in code for "+app, "sign in to "+app, code, "tried to sign in", "nobody can sign in without the code")
}

// SetupMail brings the code that opens a setup link of an organization. The code is six digits.
func SetupMail(app, organization, code string) delivery.Content {
	app, organization = plainName(app, "the service"), plainName(organization, "an organization")
	return codeMail("Your setup code for "+app, "set up the sign-in of "+organization+" for "+app, code, "opened the link to set it up", "the link does not work without the code")
}

// AlreadyRegisteredMail notifies the owner of an address of an attempt to sign up with it. The client that tried
// learns nothing.
func AlreadyRegisteredMail(app string) delivery.Content {
	app = plainName(app, "the service")
	return delivery.Content{
		Subject: "Your address is already registered with " + app,
		Body: "Somebody tried to sign up for " + app + " with this address. It belongs to your account already, so nothing was changed.\n\n" +
			"If it was you, sign in with the account that you have.\n" +
			"If it was not you, you need not do anything.\n",
	}
}

// InvitationMail brings the token of an invitation, alone on a line. organization and inviter are names. base is the
// base address of the pages; if it is "", the mail has no link.
func InvitationMail(app, organization, inviter, token, base string) delivery.Content {
	app, organization, inviter = plainName(app, "the service"), plainName(organization, "an organization"), plainName(inviter, "A member")
	accept := "To accept, sign in or sign up there with this address and give this token:\n\n" + token
	if base != "" {
		accept = "To accept, open this address:\n\n" + base + "/invitations/" + token + "\n\nOr sign in or sign up there with this address and give this token:\n\n" + token
	}
	return delivery.Content{
		Subject: "Invitation to “" + organization + "” on " + app,
		Body: "“" + inviter + "” invites you to join the organization “" + organization + "” on " + app + ".\n\n" + accept +
			"\n\nIf you do not know who invites you, ignore this mail.\n",
	}
}

// FailedSignInsMail warns the owner of an account of repeated sign-ins with wrong passwords. It has no link and asks
// for nothing, because phishers imitate such mails.
func FailedSignInsMail(app string) delivery.Content {
	app = plainName(app, "the service")
	return delivery.Content{
		Subject: "Repeated failed sign-ins to " + app,
		Body: "Someone has tried several times to sign in to your account on " + app + " with a wrong password. No attempt succeeded, and further attempts are slowed down.\n\n" +
			"If it was you, wait some minutes before the next try.\n" +
			"If it was not you, your account is safe as long as your password is long and used nowhere else.\n",
	}
}

// ResetPasswordMail brings the code that lets the owner of an account choose a new password. The code is six digits.
func ResetPasswordMail(app, code string) delivery.Content {
	app = plainName(app, "your account")
	return codeMail("Your code for a new password on "+app, "choose a new password on "+app, code, "asked for it", "your password stays as it is")
}

// ReauthenticationMail contains the code by which a signed-in user proves their identity again. The code has six
// digits.
func ReauthenticationMail(app, code string) delivery.Content {
	app = plainName(app, "your account")
	return delivery.Content{
		Subject: "Your confirmation code for " + app,
		Body: withCode("confirm that it is you on "+app, code) +
			"If you have not asked for it, somebody else is signed in to your account: sign out everywhere, and choose a new password.\n",
	}
}

// VerifyEmailMail brings the code that proves an address that was added to an account. The code is six digits.
func VerifyEmailMail(app, code string) delivery.Content {
	app = plainName(app, "your account")
	return codeMail("Your code to verify this address for "+app, "add this address to your account on "+app, code, "asked for it", "the address is added to no account without the code")
}

// AccountChangeMail notifies the owner of an account of a change: what was changed (a sentence), when, and from which
// address. It contains no link, because phishers imitate such mails.
func AccountChangeMail(app, change string, at time.Time, address string) delivery.Content {
	app = plainName(app, "the service")
	from := ""
	if address != "" {
		from = "From: " + address + "\n"
	}
	return delivery.Content{
		Subject: "A change of your account on " + app,
		Body: change + "\n\nWhere: " + app + "\nWhen: " + at.UTC().Format("2 January 2006, 15:04 MST") + "\n" + from +
			"\nIf it was you, you need not do anything.\n" +
			"If it was not you, sign in, sign out everywhere else, choose a new password, and inform the operator of the service.\n",
	}
}

// OrganizationDeletedMail notifies a member that an organization was deleted.
func OrganizationDeletedMail(app, organization string) delivery.Content {
	app, organization = plainName(app, "the service"), plainName(organization, "an organization")
	return delivery.Content{
		Subject: "“" + organization + "” on " + app + " was deleted",
		Body:    "An owner has deleted the organization “" + organization + "” on " + app + ", with its workspaces. Your own account stays as it is.\n",
	}
}

// OrganizationRequiresMail notifies a member that an organization requires more of sign-ins than the member has.
func OrganizationRequiresMail(app, organization string, required assurance.Requirement) delivery.Content {
	app, organization = plainName(app, "the service"), plainName(organization, "an organization")
	from, needed := "from now on", "a second factor beside your password or emailed code"
	if !required.From.IsZero() {
		from = "from " + required.From.UTC().Format("2 January 2006 15:04 UTC") + " on"
	}
	if required.Level == assurance.PhishingResistant {
		needed = "a passkey"
	}
	return delivery.Content{
		Subject: "“" + organization + "” on " + app + " requires more of your sign-in",
		Body: "The organization “" + organization + "” on " + app + " requires " + needed + " " + from + ". Your account has none yet: " +
			"add one in the security settings of your account.\n",
	}
}

// Quoted returns a name in quotation marks, as mails show it. If nothing of the name can be shown, it returns the
// parameter instead.
func Quoted(name, instead string) string {
	if name = plainName(name, ""); name == "" {
		return instead
	}
	return "“" + name + "”"
}

// maxName is the length of a name in a mail, in characters.
const maxName = 80

// plainName returns a name on one line that looks neither like a link nor like a code. If nothing of the name is left,
// it returns the parameter instead. Bidirectional isolates enclose a name that is written from right to left, so that
// it does not reorder the words around it.
func plainName(name, instead string) string {
	name = harmless(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), r == '\u2028', r == '\u2029':
			return ' '
		case text.Forbidden(r), r == utf8.RuneError, strings.ContainsRune("\"“”„«»<>", r):
			return -1
		}
		return r
	}, name))
	if utf8.RuneCountInString(name) > maxName {
		name = strings.TrimSpace(string([]rune(name)[:maxName-1])) + "…"
	}
	if !strings.ContainsFunc(name, unicode.IsLetter) && !strings.ContainsFunc(name, unicode.IsNumber) {
		return instead
	}
	return text.Isolate(name)
}

// maxDigits is how many digits a name may have: enough for a year or a house number, too few for a code.
const maxDigits = 4

var (
	// linkParts replaces the characters of a name that could make a link, an address or an origin-bound code of it.
	linkParts = strings.NewReplacer("/", " ", `\`, " ", ":", " ", "@", " ", "#", " ", "：", " ", "／", " ", "＠", " ", "＃", " ", "．", ".", "。", ".", "｡", ".", "․", ".")
	// innerDot matches dots as in a host name, which are not at the end of a word.
	innerDot = regexp.MustCompile(`\.+([^\s.])`)
)

// harmless removes from a name the characters that programs turn into links, all digits if there are enough for a code,
// and dots at the end, because the sentence around the name may have its own.
func harmless(name string) string {
	name = innerDot.ReplaceAllString(linkParts.Replace(name), " $1")
	digits := 0
	for _, r := range name {
		if unicode.IsNumber(r) {
			digits++
		}
	}
	if digits > maxDigits {
		name = strings.Map(func(r rune) rune {
			if unicode.IsNumber(r) {
				return -1
			}
			return r
		}, name)
		// Without the digits, dots between them may be inside a word.
		name = innerDot.ReplaceAllString(name, " $1")
	}
	return strings.TrimRight(strings.Join(strings.Fields(name), " "), ". ")
}
