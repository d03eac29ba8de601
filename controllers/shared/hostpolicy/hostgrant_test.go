package hostpolicy

import "testing"

func TestGrants(t *testing.T) {
	const list = "app.acme.example, *.Shop.example\nwww.example.com,*."
	for host, want := range map[string]bool{
		"app.acme.example":     true,
		"APP.acme.example":     true,
		"www.acme.example":     false,
		"a.shop.example":       true,
		"a.b.shop.example":     true,
		"shop.example":         false,
		"evilshop.example":     false,
		".shop.example":        false,
		"www.example.com":      true,
		"www.example.com.evil": false,
		"":                     false,
	} {
		if got := grants(list, host); got != want {
			t.Errorf("%q: got %v", host, got)
		}
	}
	if grants("", "app.acme.example") {
		t.Error("no list grants nothing")
	}
}
