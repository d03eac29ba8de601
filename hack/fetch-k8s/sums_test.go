package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// printed returns the lines of fetch-k8s -print-sums.
func printed(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := run(t.Context(), append([]string{"-print-sums", "-kubernetes", kubernetesVersion, "-etcd", etcdVersion}, args...), &out)
	return out.String(), err
}

func TestPrintedSumsOfAMirrorAreAccepted(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl"} {
		p.files[pathOf(name)+".sha256"] = sumOf(p.files[pathOf(name)])
	}
	p.files[etcdVersion+"/SHA256SUMS"] = sumOf("other") + "  another-file\n" + sumOf(p.files[etcdArchive]) + "  " + filepath.Base(etcdArchive) + "\n"
	server := httptest.NewServer(p)
	defer server.Close()
	text, err := printed(t, "-mirror", server.URL+"/base")
	if err != nil || strings.Contains(text, "#") {
		t.Fatalf("error %v: %s", err, text)
	}
	p.sums = text
	m := mirrorAt(t, p, server.URL+"/base")
	if len(m.sums) != 4 {
		t.Errorf("printed %s", text)
	}
	for name, version := range map[string]string{"kubectl": kubernetesVersion, "etcd": etcdVersion} {
		if _, err := m.fetch(t.Context(), name, version, t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

func TestPrintedSumsAreComparedWithThoseOfTheRelease(t *testing.T) {
	t.Parallel()
	kubectl := pathOf("kubectl")
	for name, tt := range map[string]struct {
		change func(p *published)
		says   string // in the error, or in the output if fine
		fine   bool
	}{
		"the release states another sum": {
			change: func(p *published) { p.files[kubectl+".sha256"] = sumOf("x") + "\n" },
			says:   kubectl + " has the SHA-256 sum " + sumOf("kubectl of the mirror") + ", but its release states " + sumOf("x"),
		},
		"the release states none": {change: func(*published) {}, fine: true, says: "# The mirror has no sum that the release states for this file:\n" + sumOf("kubectl of the mirror") + "  " + kubectl + "\n"},
		"the file is absent":      {change: func(p *published) { delete(p.files, kubectl) }, says: "the mirror answered 404"},
		"the file breaks off":     {change: func(p *published) { p.breaks = kubectl }, says: "broke off after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPublished(t)
			tt.change(p)
			server := httptest.NewServer(p)
			defer server.Close()
			text, err := printed(t, "-mirror", server.URL+"/base")
			if tt.fine != (err == nil) {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, tt.says) {
				t.Errorf("printed %q, want %q in it", text, tt.says)
			}
		})
	}
}

func TestPrintedSumsOfAFolderHaveThePathsOfAMirror(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var want string
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl", "etcd"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		version := kubernetesVersion
		if name == "etcd" {
			version = etcdVersion
		}
		want += sumOf(name) + "  " + version + "/bin/linux/arm64/" + name + "\n"
	}
	if text, err := printed(t, "-out", dir, "-platform", "linux/arm64"); err != nil || text != want {
		t.Errorf("error %v, printed %q, want %q", err, text, want)
	}
	if _, err := printed(t, "-out", t.TempDir()); err == nil {
		t.Error("an empty folder has sums")
	}
}

func TestVersionsAreThoseOfGoMod(t *testing.T) {
	t.Parallel()
	text := "module x\n\ntool k8s.io/kubernetes/cmd/kubectl\n\nrequire (\n\tk8s.io/kubernetes v1.2.3\n\tgo.etcd.io/etcd/server/v3 v3.2.1 // indirect\n)\n"
	for module, want := range map[string]string{"k8s.io/kubernetes": "v1.2.3", "go.etcd.io/etcd/server/v3": "v3.2.1", "example.com/absent": ""} {
		if got := pinned(text, module); got != want {
			t.Errorf("%s is pinned at %q, want %q", module, got, want)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"-mirror", "mirror.example"}, {"-mirror", "ftp://mirror.example"}, {"-mirror", "https://mirror.example", "etcd"},
		{"-mirror", "https://mirror.example", "-etcd-mirror", "x"}, {"-mirror", "https://user:secret@mirror.example:x"},
	} {
		err := run(t.Context(), append([]string{"-kubernetes", "v1", "-etcd", "v3"}, args...), &strings.Builder{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: error %v", args, err)
		}
	}
}
