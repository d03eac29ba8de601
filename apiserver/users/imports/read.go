package imports

import (
	"encoding/hex"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/internal/phone"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// The longest texts of a line, in characters.
const (
	maxExternalID = 255
	maxPrefix     = 255
	maxSuffix     = 8
	maxUserAgent  = 512
	maxURL        = 2048
	maxMethod     = 64
	// maxAhead is how far a time may be in the future, because clocks differ.
	maxAhead = time.Minute
)

var (
	slugForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	ssoForm  = regexp.MustCompile(`^sso:[a-z0-9]+([._-][a-z0-9]+)*$`)
)

// reader reads the members of one line.
type reader struct {
	*body.Object
	now time.Time
}

// sent reports whether a member is present and not null. A null member counts as absent.
func (r *reader) sent(member string) bool { return !r.IsNull(member) && r.Has(member) }

// required reads a mandatory text without line breaks, "" if it is faulty.
func (r *reader) required(member string, most int) string {
	if !r.Require(member) {
		return ""
	}
	if r.IsNull(member) {
		r.Fault(member, "is required: it must not be null")
		return ""
	}
	value := r.text(member, most)
	if value == "" && !r.Faulty(member) {
		r.Fault(member, "must not be empty")
	}
	return value
}

// text reads a text without line breaks, "" if it is absent, null or faulty.
func (r *reader) text(member string, most int) string {
	if !r.sent(member) {
		return ""
	}
	value, _ := r.String(member)
	switch {
	case utf8.RuneCountInString(value) > most:
		r.Fault(member, "is longer than %d characters", most)
	case strings.ContainsFunc(value, func(c rune) bool { return text.Forbidden(c) || c == '\u2028' || c == '\u2029' }):
		r.Fault(member, "contains a character that is not allowed")
	default:
		return value
	}
	return ""
}

// personName reads a user's name, "" if it is absent or null.
func (r *reader) personName(member string) string {
	if !r.sent(member) {
		return ""
	}
	return ptr.Deref(input.PersonName(r.Object, member), "")
}

// name reads the required name of an organization, workspace or key.
func (r *reader) name() string {
	if !r.Require("name") {
		return ""
	}
	return ptr.Deref(input.Name(r.Object, "name"), "")
}

// flag reads a boolean, nil if it is absent or null.
func (r *reader) flag(member string) *bool {
	if !r.sent(member) {
		return nil
	}
	return input.Bool(r.Object, member)
}

// time reads a time in the past, zero if it is absent or null.
func (r *reader) time(member string) time.Time {
	if !r.sent(member) {
		return time.Time{}
	}
	sent, ok := r.String(member)
	if !ok {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, sent)
	switch {
	case err != nil:
		r.Fault(member, "must be an RFC 3339 time with its offset, such as 2024-03-01T08:30:00+01:00")
	case at.Unix() < 0:
		r.Fault(member, "must be in 1970 or later")
	case at.After(r.now.Add(maxAhead)):
		r.Fault(member, "must not be in the future")
	case at.UnixMicro() == 0:
		return time.UnixMicro(1).UTC() // the store keeps an absent time as the first microsecond of 1970
	default:
		return at.UTC().Truncate(time.Microsecond)
	}
	return time.Time{}
}

// slug reads a slug, "" if it is absent or null.
func (r *reader) slug() string {
	slug := r.text("slug", maxExternalID)
	if slug != "" && !slugForm.MatchString(slug) {
		r.Fault("slug", "must be at most 63 lower-case letters, digits and dashes, without a dash at either end")
	}
	return slug
}

func readUser(r *reader, line *Line) {
	user := User{FirstName: r.personName("first_name"), LastName: r.personName("last_name"), Disabled: ptr.Deref(r.flag("disabled"), false)}
	if r.sent("password_hash") {
		user.PasswordHash, _ = r.String("password_hash")
		if err := password.CheckImported(user.PasswordHash); err != nil && !r.Faulty("password_hash") {
			r.Fault("password_hash", "%v: omit it to import the user without a password", err)
		}
	}
	line.At, line.Content = r.time("created_at"), &user
}

func readEmail(r *reader, line *Line) {
	line.User = r.required("user", maxExternalID)
	email := Email{VerifiedAt: r.time("verified_at"), Primary: r.flag("primary")}
	if r.Require("email") {
		email.Address = input.Email(r.Object, "email")
	}
	line.Content = &email
}

func readPhone(r *reader, line *Line) {
	line.User = r.required("user", maxExternalID)
	number := Phone{VerifiedAt: r.time("verified_at"), Primary: r.flag("primary"), SecondFactor: ptr.Deref(r.flag("second_factor"), false)}
	if r.Require("phone_number") {
		sent, _ := r.String("phone_number")
		parsed, err := phone.Parse(sent, nil)
		if err != nil && !r.Faulty("phone_number") {
			r.Fault("phone_number", "%v", err)
		}
		number.Number, number.Region = parsed.E164, parsed.Region
	}
	if ptr.Deref(number.Primary, false) && number.VerifiedAt.IsZero() && !r.Faulty("verified_at") {
		r.Fault("primary", "must not be true without verified_at: an unverified number cannot be primary")
	}
	if number.SecondFactor && number.VerifiedAt.IsZero() && !r.Faulty("verified_at") {
		r.Fault("second_factor", "must not be true without verified_at: an unverified number is no second factor")
	}
	line.Content = &number
}

func readOrganization(r *reader, line *Line) {
	organization := Organization{Name: r.name(), Slug: r.slug(), ImageURL: r.url("image_url")}
	if r.sent("description") {
		organization.Description = ptr.Deref(input.Description(r.Object, "description"), "")
	}
	line.At, line.Content = r.time("created_at"), &organization
}

// url reads a URL of the web, "" if it is absent or null.
func (r *reader) url(member string) string {
	sent := r.text(member, maxURL)
	if sent == "" {
		return ""
	}
	parsed, err := url.Parse(sent)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" {
		r.Fault(member, "must be a URL that begins with https:// or http://")
	}
	return sent
}

func readWorkspace(r *reader, line *Line) {
	line.Organization = r.required("organization", maxExternalID)
	line.At, line.Content = r.time("created_at"), &Workspace{Name: r.name(), Slug: r.slug(), Default: r.flag("default")}
}

func readMembership(r *reader, line *Line) {
	line.User = r.required("user", maxExternalID)
	line.Organization, line.Workspace = r.text("organization", maxExternalID), r.text("workspace", maxExternalID)
	if r.sent("organization") == r.sent("workspace") {
		r.Fault("organization", "or workspace is required, exactly one of them")
	}
	for _, member := range []string{"organization", "workspace"} {
		if r.sent(member) && !r.Faulty(member) && r.text(member, maxExternalID) == "" {
			r.Fault(member, "must not be empty")
		}
	}
	membership := Membership{Owner: ptr.Deref(r.flag("owner"), false), Role: r.text("role", maxExternalID)}
	if membership.Owner && membership.Role != "" {
		r.Fault("role", "must be absent for an owner, who has every permission")
	}
	line.At, line.Content = r.time("created_at"), &membership
}

func readSignIn(r *reader, line *Line) {
	line.User = r.required("user", maxExternalID)
	if r.Require("signed_in_at") {
		if r.IsNull("signed_in_at") {
			r.Fault("signed_in_at", "is required: it must not be null")
		}
		line.At = r.time("signed_in_at")
	}
	signIn := SignIn{Method: r.text("method", maxMethod), UserAgent: r.text("user_agent", maxUserAgent)}
	switch signIn.Method {
	case "":
		signIn.Method = people.MethodImport
		if r.sent("method") && !r.Faulty("method") {
			r.Fault("method", "must not be empty")
		}
	case people.MethodImport, people.MethodPassword, people.MethodEmailOTP, methodPhoneOTP:
	default:
		if !ssoForm.MatchString(signIn.Method) {
			r.Fault("method", "must be import, password, email_otp, phone_otp, or sso: followed by a provider in lower case")
		}
	}
	if sent := r.text("ip_address", maxExternalID); sent != "" {
		address, err := netip.ParseAddr(sent)
		if err != nil || address.Zone() != "" {
			r.Fault("ip_address", "must be an IPv4 or IPv6 address")
		}
		signIn.Address = address.Unmap().String()
	}
	line.Content = &signIn
}

// methodPhoneOTP is a sign-in method of other systems.
const methodPhoneOTP = "phone_otp"

func readAPIKey(r *reader, line *Line) {
	k := APIKey{
		App: r.required("app", maxExternalID), Name: r.name(), Prefix: r.text("prefix", maxPrefix), Suffix: r.text("suffix", maxSuffix),
		Scheme: r.text("rate_limit_scheme", maxExternalID),
	}
	if r.Require("sha256") {
		if digits, ok := r.String("sha256"); ok {
			raw, err := hex.DecodeString(digits)
			if err != nil || len(raw) != len(k.Digest) {
				r.Fault("sha256", "must be 64 hexadecimal digits")
			}
			copy(k.Digest[:], raw)
		}
	}
	if r.sent("permissions") {
		k.Permissions, _ = input.Permissions(r.Object, "permissions")
	}
	k.Metadata, _ = input.Metadata(r.Object, "metadata")
	k.ExpiresAt = input.Future(r.Object, "expires_at", time.Time{}) // an expired key is imported as expired
	if !k.ExpiresAt.IsZero() && k.ExpiresAt.Unix() < 1 {
		r.Fault("expires_at", "must be after 1970-01-01T00:00:00Z")
	}
	line.User, line.Organization, line.Workspace = r.text("user", maxExternalID), r.text("organization", maxExternalID), r.text("workspace", maxExternalID)
	if (line.Organization != "" || line.Workspace != "") && line.User == "" && !r.Faulty("user") {
		r.Fault("user", "is required with organization and workspace: the key may do what that member may")
	}
	line.At, line.Content = r.time("created_at"), &k
}
