package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// mirrorAt returns a mirror with the sums of p. Its time limits are so long that no test reaches them unless it
// shortens them.
func mirrorAt(t *testing.T, p *published, address string) mirror {
	t.Helper()
	sums, err := parseSums(p.sums)
	if err != nil {
		t.Fatal(err)
	}
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return mirror{base: base, sums: sums, platform: runtime.GOOS + "/" + runtime.GOARCH, client: newClient(time.Minute), stall: time.Minute}
}

func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s is left", entry.Name())
	}
}

func TestFailedDownloadsSayWhyAndLeaveNothing(t *testing.T) {
	t.Parallel()
	kubectl := pathOf("kubectl")
	for name, tt := range map[string]struct {
		change func(p *published)
		limits func(m *mirror)
		binary string
		says   []string
	}{
		"wrong sum": {
			change: func(p *published) { p.files[kubectl] = "another kubectl" },
			says:   []string{kubectl + ": has the SHA-256 sum ", sumOf("another kubectl"), ", want " + sumOf("kubectl of the mirror")},
		},
		"wrong sum of an archive": {
			change: func(p *published) { p.files[etcdArchive] = "another etcd" }, binary: "etcd",
			says: []string{etcdArchive + ": has the SHA-256 sum " + sumOf("another etcd") + ", want "},
		},
		"archive without the binary": {
			change: func(p *published) { p.replace(etcdArchive, archived(t, "etcd-release/etcdctl", "x")) }, binary: "etcd",
			says: []string{etcdArchive + ": has no file etcd"},
		},
		"no archive": {
			change: func(p *published) { p.replace(etcdArchive, "text") }, binary: "etcd",
			says: []string{etcdArchive + ": is no archive"},
		},
		"absent":      {change: func(p *published) { delete(p.files, kubectl) }, says: []string{kubectl + ": was not received: the mirror answered 404"}},
		"interrupted": {change: func(p *published) { p.breaks = kubectl }, says: []string{kubectl + ": broke off after 10 bytes"}},
		"no response": {
			change: func(p *published) { p.silent = kubectl }, limits: func(m *mirror) { m.client = newClient(time.Millisecond) },
			says: []string{kubectl + ": was not received: ", "timeout"},
		},
		"stalled": {
			change: func(p *published) { p.hangs = kubectl }, limits: func(m *mirror) { m.stall = time.Millisecond },
			says: []string{kubectl + ": broke off after ", "nothing was received for 1ms"},
		},
		"redirected without end": {
			change: func(p *published) { p.redirects, p.elsewhere = kubectl, kubectl[strings.LastIndex(kubectl, "/")+1:] },
			says:   []string{kubectl + ": was not received: stopped after 10 redirects"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPublished(t)
			tt.change(p)
			server := httptest.NewServer(p)
			defer server.Close()
			m := mirrorAt(t, p, server.URL+"/base")
			if tt.limits != nil {
				tt.limits(&m)
			}
			binary, version := "kubectl", kubernetesVersion
			if tt.binary != "" {
				binary, version = tt.binary, etcdVersion
			}
			dir := t.TempDir()
			_, err := m.fetch(t.Context(), binary, version, dir)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want %q in it", err, want)
				}
			}
			empty(t, dir)
		})
	}
}

func TestDownloadFollowsARedirectToAnotherServer(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	var authorized string
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorized = r.Header.Get("Authorization")
		_, _ = w.Write([]byte("kubectl of the mirror"))
	}))
	defer files.Close()
	p.redirects = pathOf("kubectl")
	p.elsewhere = strings.Replace(files.URL, "127.0.0.1", "localhost", 1) + "/file"
	server := httptest.NewServer(p)
	defer server.Close()
	dir := t.TempDir()
	m := mirrorAt(t, p, strings.Replace(server.URL, "http://", "http://user:secret@", 1)+"/base")
	size, err := m.fetch(t.Context(), "kubectl", kubernetesVersion, dir)
	if err != nil || size != int64(len("kubectl of the mirror")) {
		t.Errorf("%d bytes, error %v", size, err)
	}
	if authorized != "" {
		t.Error("the other server got the mirror's password")
	}
}

func TestFullDiskIsAnError(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full")
	}
	defer func() { _ = full.Close() }()
	p := newPublished(t)
	server := httptest.NewServer(p)
	defer server.Close()
	if _, err := mirrorAt(t, p, server.URL+"/base").download(t.Context(), pathOf("kubectl"), full); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
}

func TestFolderThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	server := httptest.NewServer(p)
	defer server.Close()
	if _, err := mirrorAt(t, p, server.URL+"/base").fetch(t.Context(), "kubectl", kubernetesVersion, filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestInterruptEndsADownload(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	p.silent = pathOf("kubectl")
	ctx, cancel := context.WithCancel(t.Context())
	p.onSilent = cancel
	server := httptest.NewServer(p)
	defer server.Close()
	dir := t.TempDir()
	if _, err := mirrorAt(t, p, server.URL+"/base").fetch(ctx, "kubectl", kubernetesVersion, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	empty(t, dir)
}

func TestBinariesOfAnotherPlatformHaveTheirOwnPaths(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	p.replace("v1.2.3/bin/linux/arm64/kubectl", "kubectl for arm64")
	p.replace("v3.2.1/etcd-v3.2.1-linux-arm64.tar.gz", archived(t, "etcd-release/etcd", "etcd for arm64"))
	server := httptest.NewServer(p)
	defer server.Close()
	m := mirrorAt(t, p, server.URL+"/base")
	m.platform = "linux/arm64"
	dir := t.TempDir()
	for name, version := range map[string]string{"kubectl": kubernetesVersion, "etcd": etcdVersion} {
		if _, err := m.fetch(t.Context(), name, version, dir); err != nil {
			t.Error(err)
		}
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != name+" for arm64" {
			t.Errorf("%s holds %q, error %v", name, content, err)
		}
	}
	if _, err := m.fetch(t.Context(), "kube-apiserver", kubernetesVersion, dir); err == nil || err.Error() != "no SHA-256 sum of kube-apiserver v1.2.3 for linux/arm64 is known" {
		t.Errorf("error %v", err)
	}
}

func TestFileWithoutASumIsNotRequested(t *testing.T) {
	t.Parallel()
	p := newPublished(t)
	p.sums = ""
	server := httptest.NewServer(p)
	defer server.Close()
	if _, err := mirrorAt(t, p, server.URL+"/base").fetch(t.Context(), "kubectl", kubernetesVersion, t.TempDir()); err == nil {
		t.Error("no error")
	}
	if len(p.asked) > 0 {
		t.Errorf("asked for %v", p.asked)
	}
}
