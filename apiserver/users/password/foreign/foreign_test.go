package foreign

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// firebase is the example that Firebase publishes with its scrypt.
const (
	firebaseSigner = "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA=="
	firebase       = "$firescrypt$ln=14,r=8,p=1$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==$Bw==$" + firebaseSigner
)

var known = []struct{ name, password, encoded string }{
	{"Firebase's own example", "user1password", firebase},
	{"bcrypt, 2a", "U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"},
	{"bcrypt, 2b", "U*U", "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"},
	{"bcrypt, 2y", "U*U", "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"},
	{"bcrypt of 72 bytes", strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 1),
		"$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui"},
	{"bcrypt of more than 72 bytes, where the rest does not count", "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789chars after 72 are ignored",
		"$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui"},
	{"scrypt (RFC 7914, the third vector's costs)", "pleaseletmein",
		"$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw=="},
	{"PBKDF2 with SHA-1 (RFC 6070)", "password", "$pbkdf2-sha1$i=4096$c2FsdA==$SwB5AbdlSJq+rUnZJvch0GWkKcE"},
	{"PBKDF2 with SHA-256", "password", "$pbkdf2-sha256$i=4096$c2FsdA$xeR41ZKIyEGqUw22hFxMjZYok6ABzk4RpJY4c6qYE0o"},
	{"PBKDF2 with SHA-512", "password", "$pbkdf2-sha512$i=4096$c2FsdA$0Zexsz2wFD4BixLz0dFHnmzevcyXxcD4f2kC4HL0V7UUPzBgJkGz1VzTNZiMs2uEN2Bg7NUy4Dm3QqI5Q0ry1Q"},
	{"Django's", "password", "pbkdf2_sha256$4096$salt$xeR41ZKIyEGqUw22hFxMjZYok6ABzk4RpJY4c6qYE0o="},
	{"Argon2id", "password", "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"},
}

func TestMatchesOnlyTheHashedPassword(t *testing.T) {
	for _, tc := range known {
		t.Run(tc.name, func(t *testing.T) {
			h, err := Parse(tc.encoded)
			if err != nil {
				t.Fatal(err)
			}
			if !h.Matches(tc.password) {
				t.Error("the password does not match")
			}
			for _, wrong := range []string{"", strings.ToUpper(tc.password) + "!", "x" + tc.password} {
				if h.Matches(wrong) {
					t.Errorf("%q matches", wrong)
				}
			}
		})
	}
}

func TestParseEnforcesBoundsOfEachForm(t *testing.T) {
	const salt, key = "c2FsdHNhbHRzYWx0", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	argon := func(settings string) string { return "$argon2id$v=19$" + settings + "$" + salt + "$" + key }
	scrypt := func(settings string) string { return "$scrypt$" + settings + "$" + salt + "$" + key }
	stretched := func(i string) string { return "$pbkdf2-sha256$i=" + i + "$" + salt + "$" + key }
	of := func(salt, key string) string { return "$pbkdf2-sha1$i=1$" + salt + "$" + key }
	bcrypt := func(cost string) string {
		return "$2b$" + cost + "$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	}
	for name, encodings := range map[string][2][]string{
		"argon2id": {
			{argon("m=131072,t=10,p=16"), argon("m=8,t=1,p=1")},
			{argon("m=131073,t=1,p=1"), argon("m=64,t=11,p=1"), argon("m=1024,t=1,p=17"), argon("m=7,t=1,p=1"), argon("m=64,t=0,p=1"), argon("t=1,m=64,p=1"), argon("m=64,t=1"),
				argon("m=064,t=1,p=1"), argon("m=64,t=1,p=1,x=1"), strings.Replace(argon("m=64,t=1,p=1"), "v=19", "v=16", 1), strings.Replace(argon("m=64,t=1,p=1"), "argon2id", "argon2i", 1), argon("m=64,t=1,p=1") + "$"},
		},
		"bcrypt": {{bcrypt("04"), bcrypt("14")}, {bcrypt("03"), bcrypt("15"), bcrypt("5"), bcrypt("ab"), bcrypt("05") + "a", strings.Replace(bcrypt("05"), "2b", "2x", 1), strings.Replace(bcrypt("05"), "CCC", "C C", 1)}},
		"scrypt": {
			{scrypt("ln=17,r=8,p=4"), scrypt("ln=1,r=1,p=1"), scrypt("ln=14,r=64,p=4")},
			{scrypt("ln=18,r=1,p=1"), scrypt("ln=1,r=65,p=1"), scrypt("ln=1,r=524288,p=4"), scrypt("ln=3,r=131072,p=1"), scrypt("ln=15,r=33,p=1"), scrypt("ln=17,r=9,p=1"), scrypt("ln=14,r=8,p=5"), scrypt("ln=0,r=8,p=1"), scrypt("ln=1,r=99999999999999999999,p=1"), scrypt("r=8,ln=14,p=1")},
		},
		"firescrypt": {{firebase}, {strings.Replace(firebase, "p=1", "p=2", 1), strings.Replace(firebase, "ln=14", "ln=18", 1), strings.TrimSuffix(firebase, "$"+firebaseSigner), firebase + "$", strings.TrimSuffix(firebase, "XA==") + "XAAA"}},
		"pbkdf2":     {{stretched("1"), stretched("2000000")}, {stretched("2000001"), stretched("0"), stretched("-1"), stretched("+1"), strings.Replace(stretched("1"), "sha256", "md5", 1)}},
		"django": {
			{"pbkdf2_sha256$1$s$" + key, "pbkdf2_sha256$2000000$" + strings.Repeat("s", 64) + "$" + key},
			{"pbkdf2_sha256$2000001$s$" + key, "pbkdf2_sha256$1$$" + key, "pbkdf2_sha256$1$a b$" + key, "pbkdf2_sha256$1$" + strings.Repeat("s", 65) + "$" + key, "pbkdf2_sha1$1$s$" + key},
		},
		"salts and hashes": {
			{of("AA", key), of("AA==", key+"="), of(strings.Repeat("AAAA", 21)+"AA", strings.Repeat("AAAA", 21)+"AA"), of("AA", "AAAAAAAAAAAAAAAAAAAAAA")},
			{of("", key), of(strings.Repeat("AAAA", 21)+"AAA", key), of("AA", strings.Repeat("AAAA", 21)+"AAA"), of("AA", "AAAAAAAAAAAAAAAAAAAA"), of("AA=", key), of("A", key), of("AB", key), of("A_", key), of("A\nA", key)},
		},
		"others": {nil, {"", "$", "$$$$", "plain", "{SHA}x", "$1$a$b", "$5$a$b", "$argon2id$", "pbkdf2_sha256", strings.Repeat("$", 2000)}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, good := range encodings[0] {
				if _, err := Parse(good); err != nil {
					t.Errorf("%s is refused", good)
				}
			}
			for _, bad := range encodings[1] {
				if _, err := Parse(bad); !errors.Is(err, ErrForm) {
					t.Errorf("%s passes (%v)", bad, err)
				}
			}
		})
	}
}

func TestParseReportsMemory(t *testing.T) {
	for _, tc := range []struct {
		encoded string
		want    int64
	}{{firebase, 16<<20 + 3*128*8}, {known[6].encoded, 16<<20 + 3*128*8}, {known[len(known)-1].encoded, 64 << 20}} {
		if h, err := Parse(tc.encoded); err != nil || h.Memory != tc.want {
			t.Errorf("%v bytes, want %d (%v)", h, tc.want, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tc := range known {
		f.Add(tc.encoded)
	}
	f.Fuzz(func(t *testing.T, encoded string) {
		h, err := Parse(encoded)
		if err != nil {
			if err.Error() != ErrForm.Error() {
				t.Error("the error contains more than ErrForm")
			}
			return
		}
		if h.Memory > maxMemory+ScryptOverhead || len(h.want) == 0 {
			t.Error(fmt.Sprint(h.Memory, " bytes, ", len(h.want)))
		}
	})
}
