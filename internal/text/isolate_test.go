package text

import "testing"

func TestNamesWrittenFromRightToLeftAreIsolated(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                                 "",
		"Acme":                             "Acme",
		"Größe 2026":                       "Größe 2026",
		"名前":                               "名前",
		"שלום":                             "\u2068שלום\u2069",
		"Acme שלום":                        "\u2068Acme שלום\u2069",
		"مرحبا":                            "\u2068مرحبا\u2069",
		"room ٣":                           "\u2068room ٣\u2069",
		"\u2068שלום\u2069":                 "\u2068שלום\u2069",
		"\u2068שלום\u2069 / \u2068א\u2069": "\u2068שלום\u2069 / \u2068א\u2069",
		"\u2068שלום\u2069 א":               "\u2068\u2068שלום\u2069 א\u2069",
	} {
		if got := Isolate(name); got != want {
			t.Errorf("Isolate(%q) = %q, want %q", name, got, want)
		}
		if Reorders(Isolate(name)) {
			t.Errorf("%q reorders the words around it after Isolate", name)
		}
	}
	for _, open := range []string{"\u2068a", "a\u2069", "\u2069\u2068"} {
		if !Reorders(open) {
			t.Errorf("%q has isolates that are not closed", open)
		}
	}
	for _, tt := range []struct{ first, last, want string }{
		{"Ada", "Lovelace", "Ada Lovelace"}, {"Ada", "", "Ada"}, {"", "Lovelace", "Lovelace"}, {"", "", ""}, {"עדה", "לאבלייס", "\u2068עדה לאבלייס\u2069"},
	} {
		if got := Person(tt.first, tt.last); got != tt.want {
			t.Errorf("Person(%q, %q) = %q, want %q", tt.first, tt.last, got, tt.want)
		}
	}
}
