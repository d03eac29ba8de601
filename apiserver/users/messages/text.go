package messages

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// segment is how many septets one text has (3GPP TS 23.038). A longer message is billed and delivered as several texts.
const segment = 160

// The GSM 7-bit alphabet. A character of basicAlphabet takes one septet, and a character of extensionAlphabet two.
const (
	basicAlphabet     = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	extensionAlphabet = "\f^{}\\[~]|€"
)

// CodeText returns the text that brings a code of six digits to a phone. Its last line binds the code to the host, so
// that browsers offer it there only. The text is one segment. The name is transliterated into the basic alphabet and
// shortened. The last line is left out if host is not a host name, or is so long that no name fits. host has neither
// scheme nor port.
func CodeText(code, app, host string) string {
	const opening, closing = " is your ", " code. It is valid for 5 minutes."
	origin := ""
	if originHost(host) {
		origin = "\n@" + host + " #" + code
	}
	room := segment - len(code+opening+closing+origin)
	if room < shortest {
		room, origin = room+len(origin), ""
	}
	return code + opening + textName(app, room) + closing + origin
}

// unnamed replaces the name of an app that cannot be written in the alphabet. shortest is how many characters a text
// leaves for the name at least.
const (
	unnamed  = "verification"
	shortest = len(unnamed)
)

// textName returns a name in the basic alphabet, at most room characters long, that looks neither like a link nor like
// a code.
func textName(name string, room int) string {
	var written strings.Builder
	letters, kept := 0, 0
	for _, r := range norm.NFC.String(linkParts.Replace(name)) {
		in := transliterate(r)
		written.WriteString(in)
		if unicode.IsLetter(r) {
			letters++
			if strings.TrimSpace(in) != "" {
				kept++
			}
		}
	}
	clean := harmless(written.String())
	if len([]rune(clean)) > room {
		clean = strings.TrimSpace(string([]rune(clean)[:room]))
	}
	// If a name is mostly in another script, its remaining letters do not identify the app.
	if kept*2 < letters || !strings.ContainsFunc(clean, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return unnamed
	}
	return clean
}

// spelled has the replacements of characters that do not decompose into characters of the alphabet.
var spelled = map[rune]string{
	'’': "'", '‘': "'", '‚': "'", '`': "'", '´': "'", '“': "'", '”': "'", '„': "'", '«': "'", '»': "'", '"': "'",
	'–': "-", '—': "-", '‐': "-", '‑': "-", '−': "-", '·': "-", '•': "-", '~': "-", '|': "-",
	'[': "(", '{': "(", ']': ")", '}': ")", '…': "...", '€': "EUR", '™': "", '®': "", '©': "",
	'ł': "l", 'Ł': "L", 'đ': "d", 'Đ': "D", 'ð': "d", 'Ð': "D", 'þ': "th", 'Þ': "Th", 'œ': "oe", 'Œ': "OE", 'ı': "i", 'ħ': "h", 'Ħ': "H", 'ẞ': "SS",
}

// transliterate returns a character in the basic alphabet, "" if the alphabet has nothing similar.
func transliterate(r rune) string {
	if replacement, found := spelled[r]; found {
		return replacement
	}
	switch {
	case unicode.IsSpace(r):
		return " "
	case strings.ContainsRune(basicAlphabet, r):
		return string(r)
	}
	var out strings.Builder
	// NFKD also decomposes compatibility forms, such as full-width letters.
	for _, part := range norm.NFKD.String(string(r)) {
		if replacement, found := spelled[part]; found {
			out.WriteString(replacement)
		} else if strings.ContainsRune(basicAlphabet, part) {
			out.WriteRune(part)
		}
	}
	return out.String()
}

// originHost reports whether a host name has the form that origin-bound codes require.
func originHost(host string) bool {
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-')
	})
}

// septets returns the length of a text in septets, or -1 if it has a character outside both alphabets.
func septets(text string) int {
	n := 0
	for _, r := range text {
		switch {
		case strings.ContainsRune(basicAlphabet, r):
			n++
		case strings.ContainsRune(extensionAlphabet, r):
			n += 2
		default:
			return -1
		}
	}
	return n
}
