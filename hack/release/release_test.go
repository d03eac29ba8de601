package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	containers "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const root = "../.."

// here is the only platform that the tests build, because each platform costs the linking of every program.
var here = target{"linux", runtime.GOARCH}

func newRelease(t *testing.T, version string) *release {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(root, "bin", "k8s")
	}
	r := &release{
		root: root, out: filepath.Join(t.TempDir(), "dist"), version: version, image: "registry.example:5000/team/cardea",
		targets: []target{here}, kubectl: filepath.Join(assets, "kubectl"),
	}
	if err := r.complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// A second release of the same commit has the same bytes, and its programs run.
func TestReleaseIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds cardea")
	}
	one, two := newRelease(t, "v1.2.3"), newRelease(t, "1.2.3")
	// The second is pushed as well.
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	two.push = strings.TrimPrefix(server.URL, "http://") + "/team/cardea:v1.2.3"
	for _, r := range []*release{one, two} {
		if err := r.all(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first, second := tree(t, one.out), tree(t, two.out)
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
	want := []string{
		"cardea-1.2.3.tgz", "cardea-v1.2.3-" + here.String(), "cardea-v1.2.3-" + here.String() + ".cdx.json", "checksums.txt",
		"kubectl-cardea-v1.2.3-" + here.String(), "kubectl-cardea-v1.2.3-" + here.String() + ".cdx.json",
		"image-digest.txt", "image/index.json", "image/oci-layout", "install-standalone.yaml", "install.yaml",
	}
	for _, name := range want {
		if first[name] == "" {
			t.Errorf("no %s", name)
		}
	}
	if len(first) != len(second) {
		t.Errorf("the first release has %d files, the second %d", len(first), len(second))
	}
	t.Run("checksums", func(t *testing.T) { testChecksums(t, one.out, first) })
	t.Run("binary", func(t *testing.T) { testBinary(t, one.binary("cardea", here)) })
	t.Run("bill of materials", func(t *testing.T) { testBill(t, one) })
	t.Run("image", func(t *testing.T) { testImage(t, one) })
	t.Run("pushed image", func(t *testing.T) { testPushed(t, two.push, first["image-digest.txt"]) })
	t.Run("manifests", func(t *testing.T) {
		for _, name := range []string{"install.yaml", "install-standalone.yaml"} {
			content := read(t, filepath.Join(one.out, name))
			if !bytes.Contains(content, []byte("image: registry.example:5000/team/cardea:v1.2.3\n")) || bytes.Contains(content, []byte("cardea:latest")) {
				t.Errorf("%s does not name the release's image", name)
			}
		}
	})
	t.Run("a folder with files in it", func(t *testing.T) {
		if err := one.all(t.Context()); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("%v, want a refusal", err)
		}
	})
}

// tree returns the digest of every file below a folder, by its path.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err == nil {
			files[filepath.ToSlash(name)], err = digestOf(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func testChecksums(t *testing.T, folder string, files map[string]string) {
	lines := strings.Split(strings.TrimSpace(string(read(t, filepath.Join(folder, "checksums.txt")))), "\n")
	if len(lines) != len(files)-1 {
		t.Errorf("%d checksums of %d files", len(lines), len(files))
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		if files[name] != sum {
			t.Errorf("%s is not the checksum of %s", sum, name)
		}
	}
}

func testBinary(t *testing.T, binary string) {
	if runtime.GOOS != here.os {
		t.Skip("built for Linux")
	}
	output, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if err != nil || strings.TrimSpace(string(output)) != "v1.2.3" {
		t.Errorf("version %q, %v", output, err)
	}
}

func testBill(t *testing.T, r *release) {
	binary := r.binary("cardea", here)
	var bill cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, binary+".cdx.json")), cdx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	sum, err := digestOf(binary)
	if err != nil {
		t.Fatal(err)
	}
	if hashes := *bill.Metadata.Component.Hashes; hashes[0].Value != sum || bill.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("the bill describes %+v", bill.Metadata.Component)
	}
	named := map[string]bool{}
	for _, component := range *bill.Components {
		named[component.Name] = component.Version != "" && component.PackageURL == "pkg:golang/"+component.Name+"@"+component.Version
	}
	for _, module := range []string{"std", "k8s.io/client-go", "github.com/jackc/pgx/v5", "modernc.org/sqlite"} {
		if !named[module] {
			t.Errorf("the bill lacks %s", module)
		}
	}
	if named["github.com/chromedp/chromedp"] || len(named) != len(*bill.Components) {
		t.Error("the bill names a module that only tests need, or a module twice")
	}
}

func testImage(t *testing.T, r *release) {
	index, err := layout.ImageIndexFromPath(filepath.Join(r.out, "image"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v, %v, want one index", manifest, err)
	}
	if got := strings.TrimSpace(string(read(t, filepath.Join(r.out, "image-digest.txt")))); got != manifest.Manifests[0].Digest.String() {
		t.Errorf("image-digest.txt has %s, want %s", got, manifest.Manifests[0].Digest)
	}
	platforms, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(platforms, validate.Fast); err != nil {
		t.Error(err)
	}
	if manifest, err = platforms.IndexManifest(); err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.Architecture != here.arch {
		t.Fatalf("%v, %v, want the image of %s", manifest, err, here)
	}
	image, err := platforms.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	testConfiguration(t, r, image)
	testFiles(t, r, image)
}

// testPushed compares the digest of the pushed index with the file image-digest.txt. want is the SHA-256 sum of that
// file.
func testPushed(t *testing.T, reference, want string) {
	parsed, err := containers.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Head(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256([]byte(pushed.Digest.String() + "\n")); hex.EncodeToString(sum[:]) != want || !pushed.MediaType.IsIndex() {
		t.Errorf("the pushed index %s %s is not the written one", pushed.MediaType, pushed.Digest)
	}
}

// testConfiguration expects that the image runs the binary as an unprivileged user and has the same source labels as
// the Dockerfile's.
func testConfiguration(t *testing.T, r *release, image v1.Image) {
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != user || !slices.Equal(file.Config.Entrypoint, []string{"/cardea"}) || file.OS != "linux" || file.Architecture != here.arch {
		t.Errorf("configuration %+v", file)
	}
	labels := file.Config.Labels
	if labels["org.opencontainers.image.revision"] != r.revision || len(strings.TrimSuffix(r.revision, dirty)) != 40 || labels["org.opencontainers.image.version"] != "v1.2.3" {
		t.Errorf("labels %v", labels)
	}
	dockerfile := string(read(t, filepath.Join(root, "Dockerfile")))
	if !strings.Contains(dockerfile, "USER "+user+"\n") || !strings.Contains(dockerfile, `ENTRYPOINT ["/cardea"]`) {
		t.Error("the Dockerfile has another user or entrypoint")
	}
}

// testFiles expects that the image contains only the released binary and certificates that Go can parse, both owned by
// root.
func testFiles(t *testing.T, r *release, image v1.Image) {
	flat := mutate.Extract(image)
	defer flat.Close()
	files := map[string][]byte{}
	for archive := tar.NewReader(flat); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Mode&0o022 != 0 {
			t.Errorf("%s may be changed: %d:%d %o", header.Name, header.Uid, header.Gid, header.Mode)
		}
		if header.Typeflag == tar.TypeReg {
			if files[header.Name], err = io.ReadAll(archive); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(files) != 2 || !bytes.Equal(files["cardea"], read(t, r.binary("cardea", here))) {
		t.Errorf("%d files, want the binary and the certificates", len(files))
	}
	count := 0
	for rest := files["etc/ssl/certs/ca-certificates.crt"]; ; count++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
	}
	if count < 50 {
		t.Errorf("%d certificates of authorities", count)
	}
}

func TestInvalidReleaseVersionsAreRefused(t *testing.T) {
	for _, tc := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"-root", root, "-version", "latest", "image"}, "semver.org"},
		{[]string{"-root", root, "-version", "v1.2", "image"}, "semver.org"},
		{[]string{"-root", root, "-version", "v1.02.3", "image"}, "semver.org"},
		{[]string{"-root", root, "-image", "cardea:v1", "image"}, "the tag is the version"},
		{[]string{"-root", root, "-version", "v1.2.3"}, "say image, chart or all"},
		{[]string{"-root", root, "-version", "v1.2.3", "everything"}, "say image, chart or all"},
		{[]string{"-root", t.TempDir(), "-version", "v1.2.3", "image"}, "from a checkout"},
	} {
		if err := run(t.Context(), tc.arguments); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.arguments, err, tc.want)
		}
	}
}

// The chart in the repository has the version of the file VERSION. A release has that version, too, if no version is
// set.
func TestVersion(t *testing.T) {
	r := newRelease(t, "")
	if chart := string(read(t, filepath.Join(root, "config", "chart", "cardea", "Chart.yaml"))); !strings.Contains(chart, "\nversion: "+strings.TrimPrefix(r.version, "v")+"\n") {
		t.Errorf("VERSION has %s, and Chart.yaml has another version", r.version)
	}
	for name, want := range map[string][]string{
		"Chart.yaml": {"version: 9.1.0\n", "appVersion: v9.1.0\n"}, "values.yaml": {"repository: registry.example:5000/team/cardea\n"},
	} {
		r.version = "v9.1.0"
		stamped, err := r.stamp(name, read(t, filepath.Join(root, "config", "chart", "cardea", name)))
		for _, line := range want {
			if err != nil || !bytes.Contains(stamped, []byte(line)) {
				t.Errorf("%s: no %q, %v", name, line, err)
			}
		}
		if _, err := r.stamp(name, []byte("nothing: here\n")); err == nil {
			t.Errorf("%s: no error, although there is nothing to stamp", name)
		}
	}
}

func TestSerial(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	content, _ := json.Marshal(serial(digest))
	if got := string(content); got != `"urn:uuid:abababab-abab-8bab-abab-abababababab"` {
		t.Error(got)
	}
}
