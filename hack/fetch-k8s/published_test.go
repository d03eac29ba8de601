package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// archived returns an archive with a file, in the layout that etcd publishes.
func archived(t *testing.T, name, content string) string {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, file := range [][2]string{{"etcd-release/README", "text"}, {name, content}} {
		if err := archive.WriteHeader(&tar.Header{Name: file[0], Typeflag: tar.TypeReg, Size: int64(len(file[1])), Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(file[1])); err != nil {
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

func sumOf(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }

// published is a mirror with all files, and the file of their sums.
type published struct {
	files map[string]string
	sums  string
	mu    sync.Mutex
	asked []string
	// breaks is the path of a file that breaks off in the middle.
	breaks string
	// hangs is the path of a file whose response ends after its header, until the client gives up.
	hangs string
	// silent is the path of a file that has no response, until the client gives up.
	silent string
	// onSilent is called then.
	onSilent func()
	// redirects is the path of a file that is at another address.
	redirects, elsewhere string
}

func newPublished(t *testing.T) *published {
	t.Helper()
	p := &published{files: map[string]string{etcdArchive: archived(t, "etcd-release/etcd", "etcd of the mirror")}}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl"} {
		p.files[pathOf(name)] = name + " of the mirror"
	}
	p.sums = "# sums\n\n"
	for path, content := range p.files {
		p.sums += sumOf(content) + "  " + path + "\n"
	}
	return p
}

// replace changes a file and its sum.
func (p *published) replace(path, content string) {
	var kept []string
	for line := range strings.Lines(p.sums) {
		if !strings.HasSuffix(line, "  "+path+"\n") {
			kept = append(kept, line)
		}
	}
	p.files[path] = content
	p.sums = strings.Join(kept, "") + sumOf(content) + "  " + path + "\n"
}

func (p *published) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/base/")
	p.mu.Lock()
	p.asked = append(p.asked, path)
	p.mu.Unlock()
	switch path {
	case p.silent:
		if p.onSilent != nil {
			p.onSilent()
		}
		<-r.Context().Done()
		return
	case p.redirects:
		http.Redirect(w, r, p.elsewhere, http.StatusFound)
		return
	}
	content, found := p.files[path]
	if !found {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	if path == p.breaks {
		content = content[:len(content)/2]
	}
	if path == p.hangs {
		_, _ = w.Write([]byte(content[:1]))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	_, _ = w.Write([]byte(content))
}
