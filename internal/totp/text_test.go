package totp

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/pquerna/otp"
	"pgregory.net/rapid"
)

func TestNormalizeKeepsTheDigitsOfACode(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"123456": "123456", " 123 456\r\n": "123456", "123-456": "123456", "12345678": "12345678", "1234 5678": "12345678",
		"": "", "1234567": "", "12 34 56": "", "-123456": "", "123456-": "", "１２３４５６": "", "123\u2013456": "", "12345٦": "",
	} {
		if got, ok := Normalize(typed, max(len(want), 6)); got != want || ok != (want != "") {
			t.Errorf("Normalize(%q) = %q, %v; want %q", typed, got, ok, want)
		}
	}
	if _, ok := Normalize("123456", 8); ok {
		t.Error("six digits were accepted in place of eight")
	}
}

func FuzzNormalize(f *testing.F) {
	f.Add("123 456", 6)
	f.Add("1234-5678", 8)
	f.Add(" \t１２３４５６", 6)
	f.Fuzz(func(t *testing.T, typed string, digits int) {
		code, ok := Normalize(typed, digits)
		if !ok {
			if code != "" {
				t.Fatalf("a refused code is %q", code)
			}
			return
		}
		if len(code) != digits || strings.Trim(code, "0123456789") != "" {
			t.Fatalf("%q became %q", typed, code)
		}
		if digits > 0 && !strings.Contains(strings.NewReplacer(" ", "", "-", "").Replace(typed), code) {
			t.Fatalf("%q became %q", typed, code)
		}
		if again, ok := Normalize(code, digits); !ok || again != code {
			t.Fatalf("%q is not stable: %q", code, again)
		}
	})
}

func TestParseSecretIgnoresFormAndReportsFaults(t *testing.T) {
	t.Parallel()
	const text = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	for typed, want := range map[string]error{
		text: nil, strings.ToLower(text): nil, "gezd gnbv-gy3t qojq\tGEZD GNBV GY3T QOJQ\n": nil,
		"": ErrSecretSize, "GEZDGNBVGY3TQOJ": ErrSecretSize,
		strings.Repeat("A", 206): ErrSecretForm, strings.Repeat("A", 208): ErrSecretSize, strings.Repeat("=", 1000): ErrSecretSize,
		text + "A": ErrSecretForm, text + "AAA": ErrSecretForm, text + "AAAAAA": ErrSecretForm,
		"GEZDGNBVGY3TQOJ0GEZDGNBVGY3TQOJQ": ErrSecretForm, "GEZDGNBV=GY3TQOJQGEZDGNBVGY3TQOJQ": ErrSecretForm, "ＧEZDGNBVGY3TQOJQ": ErrSecretForm,
	} {
		secret, err := ParseSecret(typed)
		if !errors.Is(err, want) || want == nil && string(secret) != "12345678901234567890" || want != nil && secret != nil {
			t.Errorf("ParseSecret(%q) = %q, %v; want %v", typed, secret, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), MinSecretBytes, MaxSecretBytes).Draw(t, "secret")
		text := FormatSecret(secret) + strings.Repeat("=", rapid.IntRange(0, 7).Draw(t, "padding"))
		if got, err := ParseSecret(text); err != nil || !bytes.Equal(got, secret) {
			t.Fatalf("ParseSecret(%q) = %x, %v", text, got, err)
		}
	})
}

func FuzzParseSecret(f *testing.F) {
	f.Add("gezd gnbv-gy3t qojq")
	f.Add("MZXW6YTBOI======")
	f.Add(strings.Repeat("A", 205))
	f.Fuzz(func(t *testing.T, text string) {
		secret, err := ParseSecret(text)
		if err != nil {
			if secret != nil || !errors.Is(err, ErrSecretForm) && !errors.Is(err, ErrSecretSize) {
				t.Fatalf("%q, %v", secret, err)
			}
			return
		}
		if len(secret) < MinSecretBytes || len(secret) > MaxSecretBytes {
			t.Fatalf("%d bytes", len(secret))
		}
		if again, err := ParseSecret(FormatSecret(secret)); err != nil || !bytes.Equal(again, secret) {
			t.Fatalf("%x became %x, %v", secret, again, err)
		}
	})
}

func TestURIIsPercentEncoded(t *testing.T) {
	t.Parallel()
	got := URI("Café & Söhne", "ada+x@acme.example", []byte("12345678901234567890"), Default())
	want := "otpauth://totp/Caf%C3%A9%20%26%20S%C3%B6hne:ada%2Bx%40acme.example?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ" +
		"&issuer=Caf%C3%A9%20%26%20S%C3%B6hne&algorithm=SHA1&digits=6&period=30"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawParameters(t)
		issuer := rapid.StringMatching(`[^:]{1,40}`).Draw(t, "issuer")
		account := rapid.StringMatching(`[^:]{1,40}`).Draw(t, "account")
		secret := rapid.SliceOfN(rapid.Byte(), MinSecretBytes, MaxSecretBytes).Draw(t, "secret")
		key, err := otp.NewKeyFromURL(URI(issuer, account, secret, p))
		if err != nil {
			t.Fatal(err)
		}
		if key.Type() != "totp" || key.Issuer() != issuer || key.Secret() != FormatSecret(secret) || key.Digits() != otp.Digits(p.Digits) ||
			key.Period() != uint64(p.Period/time.Second) || key.Algorithm().String() != string(p.Algorithm) {
			t.Fatalf("%s reads as %q of %q", key, key.AccountName(), key.Issuer())
		}
		parsed, err := url.Parse(key.URL())
		if err != nil || parsed.Path != "/"+issuer+":"+account {
			t.Fatalf("%s, %v", key, err)
		}
	})
}

// draw returns the picture of an SVG of SVG, some pixels a module. It fails on every element, attribute and path
// command that SVG does not write.
func draw(t testing.TB, text string) image.Image {
	t.Helper()
	const scale = 4
	attributes := map[string]map[string]string{}
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if attributes[token.Name.Local] != nil {
				t.Fatalf("a second <%s>", token.Name.Local)
			}
			attributes[token.Name.Local] = map[string]string{}
			for _, attribute := range token.Attr {
				attributes[token.Name.Local][attribute.Name.Local] = attribute.Value
			}
		case xml.EndElement:
		default:
			t.Fatalf("unexpected %T in the SVG", token)
		}
	}
	svg, rect, path := attributes["svg"], attributes["rect"], attributes["path"]
	if len(attributes) != 3 || len(svg) != 5 || len(rect) != 3 || len(path) != 2 || svg["role"] != "img" || rect["fill"] != "#fff" || path["fill"] != "#000" {
		t.Fatalf("unexpected parts: %v", attributes)
	}
	size, err := strconv.Atoi(rect["width"])
	if err != nil || svg["viewBox"] != "0 0 "+rect["width"]+" "+rect["width"] || rect["height"] != rect["width"] {
		t.Fatalf("size %v", attributes)
	}
	picture := image.NewGray(image.Rect(0, 0, size*scale, size*scale))
	for i := range picture.Pix {
		picture.Pix[i] = 255
	}
	command := regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`)
	if rest := command.ReplaceAllString(path["d"], ""); rest != "" {
		t.Fatalf("unexpected path %q", rest)
	}
	for _, match := range command.FindAllStringSubmatch(path["d"], -1) {
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(match[i+1])
		}
		if n[2] != n[3] || min(n[0], n[1]) < quietZone || n[0]+n[2] > size-quietZone || n[1] >= size-quietZone {
			t.Fatalf("%s is not closed, or lies in the quiet zone", match[0])
		}
		for x := n[0] * scale; x < (n[0]+n[2])*scale; x++ {
			for y := n[1] * scale; y < (n[1]+1)*scale; y++ {
				picture.SetGray(x, y, color.Gray{})
			}
		}
	}
	return picture
}

func TestQRCodeReadsBack(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte{0xa5}, MaxSecretBytes)
	for _, uri := range []string{
		URI("Acme", "ada@acme.example", long[:SecretBytes], Default()),
		URI("Café & Söhne", strings.Repeat("a", 60)+"@acme.example", long, Parameters{SHA512, 8, time.Minute}),
		URI("<script>\"'&", "<x>@acme.example", long[:MinSecretBytes], Default()),
	} {
		svg, err := SVG(uri)
		if err != nil {
			t.Fatal(err)
		}
		picture, err := gozxing.NewBinaryBitmapFromImage(draw(t, svg))
		if err != nil {
			t.Fatal(err)
		}
		read, err := qrcode.NewQRCodeReader().Decode(picture, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
		if err != nil || read.GetText() != uri {
			t.Errorf("%v, %v; want %s", read, err, uri)
		}
	}
}

func TestQRCodeOfALongURIFailsWithoutTheURI(t *testing.T) {
	t.Parallel()
	if svg, err := SVG("otpauth://totp/" + strings.Repeat("a", 3000)); !errors.Is(err, ErrTooLong) || svg != "" {
		t.Errorf("%d bytes of SVG, %v", len(svg), err)
	}
}
