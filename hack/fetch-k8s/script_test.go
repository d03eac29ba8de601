package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
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

// repository returns a folder with the script, in which the go command is a stub: it compiles nothing and records
// the packages.
func repository(t *testing.T, sums string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{"hack/k8s/go.mod": "module x\n", "hack/k8s/go.sum": "", "hack/k8s/sums.txt": sums}
	for _, name := range []string{"build-k8s.sh", "first-start.sh"} {
		text, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["hack/"+name] = string(text)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	goCommand := `#!/bin/sh
case "$1" in
list) case "$5" in *etcd*) echo ` + etcdVersion + ` ;; *) echo ` + kubernetesVersion + ` ;; esac ;;
run)
	while [ "${1#./hack/}" = "$1" ]; do shift; done
	case "$1" in
	./hack/fetch-k8s) shift; ` + asCommand + `=1 exec '` + self + `' "$@" ;;
	./hack/compile) while [ "$1" != -- ]; do shift; done; shift; exec "$0" build "$@" ;;
	esac ;;
build)
	[ ! -e "` + root + `/broken" ] || { echo "a.go:1:1: undefined: x" >&2; exit 2; }
	while [ "$1" != -o ]; do shift; done
	out=$2; shift 2
	for package; do
		name=${package%/v3}; name=${name##*/} # as go build names programs
		echo compiled >"$out$name"; chmod +x "$out$name"; echo "$package" >>"` + root + `/compiled"
	done ;;
esac
`
	files["path/go"] = goCommand
	for name, content := range files {

		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		// A process that another test forks meanwhile would hold the file open for writing, and it could not run.
		syscall.ForkLock.RLock()
		err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o755) //nolint:gosec // programs
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// script is a script of the repository, with the stub of the go command.
func script(root, mirror, name string, args ...string) *exec.Cmd {
	command := exec.Command("/bin/sh", append([]string{filepath.Join(root, "hack", name)}, args...)...)
	command.Env = append(os.Environ(), "PATH="+filepath.Join(root, "path")+":"+os.Getenv("PATH"), "CARDEA_K8S_MIRROR="+mirror, "CARDEA_ETCD_MIRROR=", "KUBEBUILDER_ASSETS=", "CARDEA_STARTED=")
	return command
}

// build runs hack/build-k8s.sh, and returns its output, the content of every binary, and the names of the compiled
// binaries.
func build(t *testing.T, root, mirror string) (said string, holds map[string]string, compiled []string) {
	t.Helper()
	_ = os.Remove(filepath.Join(root, "compiled"))
	raw, err := script(root, mirror, "build-k8s.sh").CombinedOutput()
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
	for _, pkg := range strings.Fields(string(list)) {
		compiled = append(compiled, path.Base(strings.Replace(pkg, "go.etcd.io/etcd/server/v3", "etcd", 1)))
	}
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
		"every file with its sum": {says: "fetching Kubernetes v1.2.3 and etcd v3.2.1 from http://"},
		"no mirror":               {none: true, compiled: all, says: "about 4 minutes on two cores"},
		"a wrong sum": {
			change: func(p *published) { p.files[pathOf("kubectl")] += "!" }, compiled: []string{"kubectl"}, says: ", want ",
		},
		"a wrong sum of an archive": {
			change: func(p *published) { p.files[etcdArchive] += "!" }, compiled: []string{"etcd"}, says: ", want ",
		},
		"an absent file": {
			change: func(p *published) { delete(p.files, pathOf("kube-apiserver")) }, compiled: []string{"kube-apiserver"}, says: "the mirror answered 404",
		},
		"a file that breaks off": {
			change: func(p *published) { p.breaks = pathOf("kube-controller-manager") }, compiled: []string{"kube-controller-manager"}, says: "broke off after",
		},
		"no sums":            {change: func(p *published) { p.sums = "" }, compiled: all, says: "no SHA-256 sum of etcd v3.2.1"},
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

func TestAFailedCompilationLeavesNoFinishedBuild(t *testing.T) {
	t.Parallel()
	root := repository(t, "")
	if err := os.WriteFile(filepath.Join(root, "broken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := script(root, "", "build-k8s.sh").CombinedOutput()
	if err == nil || !strings.Contains(string(raw), "a.go:1:1: undefined: x") {
		t.Errorf("the script ended with %v: %s", err, raw)
	}
	if err := script(root, "", "build-k8s.sh", "--check").Run(); err == nil {
		t.Error("--check reports a complete control plane")
	}
	if err := os.Remove(filepath.Join(root, "broken")); err != nil {
		t.Fatal(err)
	}
	if _, _, compiled := build(t, root, ""); len(compiled) != 4 {
		t.Errorf("then compiled %v", compiled)
	}
}

func TestFirstStartSaysWhatItDoesBeforeItDoesIt(t *testing.T) {
	t.Parallel()
	built := repository(t, "")
	build(t, built, "")
	cardea := filepath.Join(built, "path/go") // an executable file
	for name, tt := range map[string]struct {
		root, mirror string
		args         []string
		want         string
	}{
		"bare machine": {
			root: repository(t, ""), args: []string{"absent", "k8s"},
			want: "First start: compiling the Kubernetes control plane (about 4 minutes on two cores, once; CARDEA_K8S_MIRROR fetches it instead), then compiling Cardea (about 2 minutes).\n",
		},
		"mirror": {
			root: repository(t, ""), mirror: "https://mirror.example", args: []string{"absent", "k8s"},
			want: "First start: fetching the Kubernetes control plane from CARDEA_K8S_MIRROR (a minute on a fast line, once), then compiling Cardea (about 2 minutes).\n",
		},
		"another cluster":            {root: repository(t, ""), args: []string{"absent"}, want: "First start: compiling Cardea (about 2 minutes).\n"},
		"the control plane is built": {root: built, args: []string{"absent", "k8s"}, want: "First start: compiling Cardea (about 2 minutes).\n"},
		"everything is built":        {root: built, args: []string{cardea, "k8s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said, err := script(tt.root, tt.mirror, "first-start.sh", tt.args...).CombinedOutput()
			if err != nil || string(said) != tt.want {
				t.Errorf("error %v, said %q, want %q", err, said, tt.want)
			}
		})
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
	for at := range sums {
		version, file, _ := strings.Cut(at, "/")
		name := "k8s.io/kubernetes"
		if strings.Contains(file, "etcd") {
			name = "go.etcd.io/etcd/server/v3"
		}
		if want := pinned(string(module), name); version != want {
			t.Errorf("%s is of another version than hack/k8s/go.mod pins, %s", at, want)
		}
	}
}
