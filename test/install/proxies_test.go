package install

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var cidr = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}\b`)

// No manifest, not even in a comment, suggests trusting a range of private addresses that includes other Pods, because
// a trusted proxy determines the client's address.
func TestManifestsTrustNoPodRange(t *testing.T) {
	read := 0
	err := filepath.WalkDir("../../config", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, at := range regexp.MustCompile(`trusted-proxies`).FindAllIndex(text, -1) {
			read++
			around := text[at[0]:min(at[1]+300, len(text))]
			for _, found := range cidr.FindAll(around, -1) {
				prefix, err := netip.ParsePrefix(string(found))
				if err == nil && prefix.Addr().IsPrivate() && prefix.Bits() < 24 {
					t.Errorf("%s suggests %s as trusted proxies", path, found)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read == 0 {
		t.Error("no manifest names --trusted-proxies: this test checks nothing")
	}
}
