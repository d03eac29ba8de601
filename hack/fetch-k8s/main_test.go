package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

const kubernetesVersion, etcdVersion = "v1.2.3", "v3.2.1"

// asCommand is the environment variable with which this test binary runs as the command, so that the script can call
// it.
const asCommand = "CARDEA_TEST_FETCH_K8S"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func pathOf(name string) string {
	return kubernetesVersion + "/bin/" + runtime.GOOS + "/" + runtime.GOARCH + "/" + name
}

var etcdArchive = fmt.Sprintf("%s/etcd-%s-%s-%s.tar.gz", etcdVersion, etcdVersion, runtime.GOOS, runtime.GOARCH)

// archived is an archive as etcd publishes it.
func archived(t *testing.T, content string) string {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, name := range []string{"etcd-release/etcdctl", "etcd-release/etcd"} {
		text := content
		if name != "etcd-release/etcd" {
			text = "something else"
		}
		if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// published is a mirror with all files, and the file of their sums.
type published struct {
	files map[string]string
	sums  string
	mu    sync.Mutex
	asked []string
	// breaks is the path of a file that breaks off in the middle.
	breaks string
}

func newPublished(t *testing.T) *published {
	t.Helper()
	p := &published{files: map[string]string{etcdArchive: archived(t, "etcd of the mirror")}}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl"} {
		p.files[pathOf(name)] = name + " of the mirror"
	}
	p.sums = "# sums\n\n"
	for path, content := range p.files {
		p.sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(content)), path)
	}
	return p
}

func (p *published) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/base/")
	p.mu.Lock()
	p.asked = append(p.asked, path)
	p.mu.Unlock()
	content, found := p.files[path]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if path == p.breaks {
		content = content[:len(content)/2]
	}
	_, _ = w.Write([]byte(content))
}

// repository returns a folder with the script, in which the go command is a stub: it compiles nothing and records
// the packages.
func repository(t *testing.T, sums string) string {
	t.Helper()
	root := t.TempDir()
	script, err := os.ReadFile("../build-k8s.sh")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	goCommand := `#!/bin/sh
case "$1" in
list) case "$5" in *etcd*) echo ` + etcdVersion + ` ;; *) echo ` + kubernetesVersion + ` ;; esac ;;
run) shift 2; ` + asCommand + `=1 exec '` + self + `' "$@" ;;
build)
	while [ "$1" != -o ]; do shift; done
	out=$2; shift 2
	for package; do
		case "$out" in */) file=$out${package##*/} ;; *) file=$out ;; esac
		echo compiled >"$file"; chmod +x "$file"; echo "${file##*/}" >>"` + root + `/compiled"
	done ;;
esac
`
	for name, content := range map[string]string{
		"hack/build-k8s.sh": string(script), "hack/k8s/go.mod": "module x\n", "hack/k8s/go.sum": "", "hack/k8s/sums.txt": sums, "path/go": goCommand,
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o755); err != nil { //nolint:gosec // programs
			t.Fatal(err)
		}
	}
	return root
}

// build runs the script, and returns its output, the content of every binary, and the names of the compiled binaries.
func build(t *testing.T, root, mirror string) (said string, holds map[string]string, compiled []string) {
	t.Helper()
	_ = os.Remove(filepath.Join(root, "compiled"))
	command := exec.Command("/bin/sh", filepath.Join(root, "hack/build-k8s.sh"))
	command.Env = append(os.Environ(), "PATH="+filepath.Join(root, "path")+":"+os.Getenv("PATH"), "CARDEA_K8S_MIRROR="+mirror, "CARDEA_ETCD_MIRROR=", "KUBEBUILDER_ASSETS=")
	raw, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	entries, err := os.ReadDir(filepath.Join(root, "bin/k8s"))
	if err != nil {
		t.Fatal(err)
	}
	holds = map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(root, "bin/k8s", entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if entry.Name() != ".built-from" && info.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable", entry.Name())
		}
		holds[entry.Name()] = strings.TrimSpace(string(content))
	}
	delete(holds, ".built-from")
	list, _ := os.ReadFile(filepath.Join(root, "compiled"))
	compiled = strings.Fields(string(list))
	slices.Sort(compiled)
	return string(raw), holds, compiled
}

func TestTheControlPlaneIsFetchedWhereAMirrorHasItAndCompiledElsewhere(t *testing.T) {
	t.Parallel()
	all := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"}
	for name, tt := range map[string]struct {
		change   func(p *published)
		none     bool
		compiled []string
		says     string
	}{
		"every file with its sum": {says: "Fetching Kubernetes v1.2.3 and etcd v3.2.1 from http://"},
		"no mirror":               {none: true, compiled: all, says: "about 7 minutes on two cores"},
		"a wrong sum": {
			change: func(p *published) { p.files[pathOf("kubectl")] += "!" }, compiled: []string{"kubectl"}, says: "which is not in the file of sums",
		},
		"a wrong sum of an archive": {
			change: func(p *published) { p.files[etcdArchive] += "!" }, compiled: []string{"etcd"}, says: "which is not in the file of sums",
		},
		"an absent file": {
			change: func(p *published) { delete(p.files, pathOf("kube-apiserver")) }, compiled: []string{"kube-apiserver"}, says: "the mirror answered 404",
		},
		"a file that breaks off": {
			change: func(p *published) { p.breaks = pathOf("kube-controller-manager") }, compiled: []string{"kube-controller-manager"}, says: "broke off after",
		},
		"no sums":            {change: func(p *published) { p.sums = "" }, compiled: all, says: "no sum of etcd v3.2.1"},
		"sums that are none": {change: func(p *published) { p.sums = "123  kubectl" }, compiled: all, says: "no SHA-256 sum in hex"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPublished(t)
			if tt.change != nil {
				tt.change(p)
			}
			server := httptest.NewServer(p)
			defer server.Close()
			mirror := strings.Replace(server.URL, "http://", "http://user:secret@", 1) + "/base"
			if tt.none {
				mirror = ""
			}
			root := repository(t, p.sums)
			said, holds, compiled := build(t, root, mirror)
			if !slices.Equal(compiled, tt.compiled) {
				t.Errorf("compiled %v, want %v", compiled, tt.compiled)
			}
			if !strings.Contains(said, tt.says) || strings.Contains(said, "secret") {
				t.Errorf("the script says %s", said)
			}
			if len(holds) != len(all) {
				t.Errorf("bin/k8s holds %v", holds)
			}
			for _, name := range all {
				want := name + " of the mirror"
				if slices.Contains(tt.compiled, name) {
					want = "compiled"
				}
				if holds[name] != want {
					t.Errorf("%s holds %q, want %q", name, holds[name], want)
				}
			}
			// A program that is already there is neither fetched nor compiled again.
			p.asked = nil
			if said, _, compiled := build(t, root, mirror); said != "" || len(compiled) > 0 || len(p.asked) > 0 {
				t.Errorf("again: %s %v %v", said, compiled, p.asked)
			}
		})
	}
}

func TestFileWithoutASumIsNotFetched(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	server := httptest.NewServer(p)
	defer server.Close()
	build(t, repository(t, ""), server.URL+"/base")
	if len(p.asked) > 0 {
		t.Errorf("asked for %v", p.asked)
	}
}

// hack/k8s/sums.txt has only sums of the versions that hack/k8s/go.mod pins.
func TestTheSumsAreOfThePinnedVersions(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../k8s/sums.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := parseSums(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../k8s/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for path := range sums {
		version, file, _ := strings.Cut(path, "/")
		pinned := "k8s.io/kubernetes "
		if strings.Contains(file, "etcd") {
			pinned = "go.etcd.io/etcd/server/v3 "
		}
		if !strings.Contains(string(module), pinned+version) {
			t.Errorf("%s is of another version than hack/k8s/go.mod pins", path)
		}
	}
}
