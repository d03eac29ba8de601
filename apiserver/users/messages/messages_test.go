package messages

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/internal/text"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/internal/assurance"
)

func TestCodeText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("h", 60) + ".example"
	for name, tt := range map[string]struct{ app, host, want string }{
		"a name":              {"Acme", "acme.example", "012345 is your Acme code. It is valid for 5 minutes.\n@acme.example #012345"},
		"letters of ours":     {"Größe & Søn", "a.b", "012345 is your Größe & Søn code. It is valid for 5 minutes.\n@a.b #012345"},
		"other letters":       {"Café “Łódź” – ça", "a.b", "012345 is your Café 'Lodz' - ca code. It is valid for 5 minutes.\n@a.b #012345"},
		"full-width letters":  {"ＡＣＭＥ", "a.b", "012345 is your ACME code. It is valid for 5 minutes.\n@a.b #012345"},
		"another script":      {"名前", "a.b", "012345 is your verification code. It is valid for 5 minutes.\n@a.b #012345"},
		"mostly another":      {"Компания A", "a.b", "012345 is your verification code. It is valid for 5 minutes.\n@a.b #012345"},
		"emoji":               {"Acme 🚀", "a.b", "012345 is your Acme code. It is valid for 5 minutes.\n@a.b #012345"},
		"a link":              {"https://www.acme.com/x", "a.b", "012345 is your https www acme com x code. It is valid for 5 minutes.\n@a.b #012345"},
		"dots of any kind":    {"acme．com。uk", "a.b", "012345 is your acme com uk code. It is valid for 5 minutes.\n@a.b #012345"},
		"no link":             {"Acme Inc. Shop", "a.b", "012345 is your Acme Inc. Shop code. It is valid for 5 minutes.\n@a.b #012345"},
		"another code":        {"Acme 123-456", "a.b", "012345 is your Acme - code. It is valid for 5 minutes.\n@a.b #012345"},
		"a year":              {"Summit 2026", "a.b", "012345 is your Summit 2026 code. It is valid for 5 minutes.\n@a.b #012345"},
		"another origin":      {"x\n@evil.example #111111", "a.b", "012345 is your x evil example code. It is valid for 5 minutes.\n@a.b #012345"},
		"no name":             {"", "a.b", "012345 is your verification code. It is valid for 5 minutes.\n@a.b #012345"},
		"no host":             {"Acme", "", "012345 is your Acme code. It is valid for 5 minutes."},
		"a host that is none": {"Acme", "ä b", "012345 is your Acme code. It is valid for 5 minutes."},
		"a long name":         {strings.Repeat("abc ", 30), long, "012345 is your " + strings.TrimSpace(strings.Repeat("abc ", 30)[:34]) + " code. It is valid for 5 minutes.\n@" + long + " #012345"},
		"a host too long":     {"Acme", strings.Repeat("h", 120), "012345 is your Acme code. It is valid for 5 minutes."},
	} {
		if got := CodeText("012345", tt.app, tt.host); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tt.want)
		}
	}
}

// names draws names as users choose them, with parts that could form links or codes.
func names() *rapid.Generator[string] {
	part := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-zA-Z0-9 .:/@#€{}\[\]~^|\\-]{0,30}`),
		rapid.SampledFrom([]string{"https://", "www.", "acme.com", "123456", "１２３４５６", "①②③④⑤⑥", "\r\n", "@a.b #123456", "ß", "™", "Ǆ", "ﬁ", "…", "\u202e"}))
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(part, 0, 6).Draw(t, "parts"), "") })
}

var (
	sixDigits = regexp.MustCompile(`[0-9]{6}`)
	dotted    = regexp.MustCompile(`[^\s.]\.[^\s."”]`)
)

func digits(text string) int {
	n := 0
	for _, r := range text {
		if unicode.IsNumber(r) {
			n++
		}
	}
	return n
}

func TestEveryCodeTextIsOneSegment(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.StringMatching(`[0-9]{6}`).Draw(t, "code")
		host := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{1,253}`), rapid.String()).Draw(t, "host")
		got := CodeText(code, names().Draw(t, "app"), host)
		if n := septets(got); n < 1 || n > segment {
			t.Fatalf("%d septets: %q", n, got)
		}
		first, last, bound := strings.Cut(got, "\n")
		if bound && last != "@"+host+" #"+code {
			t.Fatalf("last line %q", last)
		}
		if !bound && len(host) < 80 && regexp.MustCompile(`^[a-z0-9.-]+$`).MatchString(host) {
			t.Fatalf("no last line for %q", host)
		}
		name, found := strings.CutSuffix(first, " code. It is valid for 5 minutes.")
		name, begins := strings.CutPrefix(name, code+" is your ")
		if !found || !begins || name == "" || name != strings.TrimSpace(name) {
			t.Fatalf("first line %q", first)
		}
		harmlessName(t, name)
	})
}

func harmlessName(t *rapid.T, name string) {
	if dotted.MatchString(name) || strings.ContainsAny(name, "/:@#\\\r\n") || digits(name) > maxDigits {
		t.Fatalf("the name %q", name)
	}
}

func TestMailsContainOneCodeAndNoLink(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.StringMatching(`[0-9]{6}`).Draw(t, "code")
		app, organization, inviter := names().Draw(t, "app"), names().Draw(t, "organization"), names().Draw(t, "inviter")
		const token = "inv_abcDEFghiJKL"
		for name, mail := range everyMail(t, app, organization, inviter, code, token) {
			if strings.ContainsAny(mail.Subject, "\r\n\x00\u0085\u2028\u2029") || mail.Subject == "" || len([]rune(mail.Subject)) > 250 {
				t.Fatalf("%s: subject %q", name, mail.Subject)
			}
			want := []string{}
			switch name {
			case "SignUpMail", "SignInMail", "ResetPasswordMail", "ReauthenticationMail", "VerifyEmailMail", "SetupMail":
				want = []string{code}
			}
			if got := sixDigits.FindAllString(mail.Body, -1); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s holds the codes %q: %q", name, got, mail.Body)
			}
			if got := strings.Count("\n"+mail.Body, "\n"+token+"\n"); got != 1 && name == "InvitationMail" {
				t.Fatalf("the token stands on %d lines: %q", got, mail.Body)
			}
			for _, text := range []string{mail.Subject, strings.NewReplacer(":\n", "\n").Replace(mail.Body)} {
				if dotted.MatchString(text) || strings.ContainsAny(text, "/@#\\") || strings.Contains(text, "://") {
					t.Fatalf("%s holds something like a link: %q", name, text)
				}
			}
		}
		harmlessName(t, plainName(app, "it"))
	})
}

func TestPlainName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Acme": "Acme", " 名前 ": "名前", "Acme Inc.": "Acme Inc", "a\r\nb\tc": "a b c", "": "it", " .. ": "it", "\u202eevil": "evil", "jane@acme.com": "jane acme com",
		`"A" “B” <c>`: "A B c", "Code 123456": "Code", "Code １２３ ４５６": "Code", "Area 51": "Area 51", "Node.js": "Node js", "ftp://x": "ftp x",
		strings.Repeat("ä", 81): strings.Repeat("ä", 79) + "…", "\xff": "it", "a1.2b3.4c5": "a b c",
	} {
		if got := plainName(in, "it"); got != want {
			t.Errorf("plainName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSeptets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "abc": 3, "€": 2, "a{b}": 6, "äöüß": 4, "ç": -1, "名": -1, strings.Repeat("^", 80): 160} {
		if got := septets(text); got != want {
			t.Errorf("septets(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestInvitationLinksToPages(t *testing.T) {
	t.Parallel()
	mail := InvitationMail("Acme", "Org", "ada@example.com", "token", "https://app.acme.example")
	if !strings.Contains(mail.Body, "\nhttps://app.acme.example/invitations/token\n") || !strings.Contains(mail.Body, "\ntoken\n") {
		t.Error(mail.Body)
	}
}

func TestAccountChangeMail(t *testing.T) {
	t.Parallel()
	mail := AccountChangeMail("Acme", "Your password was changed.", time.Date(2026, time.May, 2, 12, 0, 5, 0, time.UTC), "192.0.2.1")
	for _, part := range []string{"Your password was changed.\n", "Where: Acme\n", "When: 2 May 2026, 12:00 UTC\n", "From: 192.0.2.1\n"} {
		if !strings.Contains(mail.Body, part) {
			t.Errorf("%q is not in %s", part, mail.Body)
		}
	}
	if strings.Contains(mail.Body, "://") {
		t.Error(mail.Body)
	}
}

// everyMail returns every mail of this package, by the function that writes it. It fails the test if one is missing.
func everyMail(t interface{ Fatalf(string, ...any) }, app, organization, inviter, code, token string) map[string]delivery.Content {
	mails := map[string]delivery.Content{
		"SignUpMail": SignUpMail(app, code), "SignInMail": SignInMail(app, code), "AlreadyRegisteredMail": AlreadyRegisteredMail(app),
		"InvitationMail": InvitationMail(app, organization, inviter, token, ""), "FailedSignInsMail": FailedSignInsMail(app),
		"ResetPasswordMail": ResetPasswordMail(app, code), "ReauthenticationMail": ReauthenticationMail(app, code),
		"VerifyEmailMail": VerifyEmailMail(app, code), "SetupMail": SetupMail(app, organization, code), "AccountChangeMail": AccountChangeMail(app, Quoted(organization, "x"), time.Time{}, ""),
		"OrganizationDeletedMail":  OrganizationDeletedMail(app, organization),
		"OrganizationRequiresMail": OrganizationRequiresMail(app, organization, assurance.Requirement{Level: assurance.TwoFactors}),
	}
	for _, function := range mailFunctions() {
		if _, written := mails[function]; !written {
			t.Fatalf("%s is not in everyMail", function)
		}
	}
	return mails
}

// mailFunctions are the names of the functions of mail.go that write a mail.
var mailFunctions = sync.OnceValue(func() (names []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "mail.go", nil, 0)
	if err != nil {
		panic(err)
	}
	for _, d := range parsed.Decls {
		if f, is := d.(*ast.FuncDecl); is && f.Name.IsExported() && strings.HasSuffix(f.Name.Name, "Mail") {
			names = append(names, f.Name.Name)
		}
	}
	return names
})

func TestRightToLeftNamesDoNotReorderMail(t *testing.T) {
	t.Parallel()
	const name = "שירות 24"
	for function, mail := range everyMail(t, name, name, name, "123456", "token") {
		if text.Reorders(mail.Subject) || text.Reorders(mail.Body) {
			t.Errorf("%s shows a name that can reorder the words around it: %q", function, mail)
		}
		if !strings.Contains(mail.Subject+mail.Body, "\u2068"+name+"\u2069") {
			t.Errorf("%s does not show the name: %q", function, mail)
		}
	}
	if got, want := Quoted(name, "x"), "“\u2068"+name+"\u2069”"; got != want {
		t.Errorf("Quoted returns %q, want %q", got, want)
	}
}
