// Package asset serves the files that pages are made of: scripts, styles and pictures. They are embedded, and their path holds a hash of
// their content, so that browsers may keep them for ever and never mix those of two versions.
package asset

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Set is a folder of files that refer to each other by relative names.
type Set struct {
	// root is the folder's path, "/console/assets/<hash>/".
	root  string
	files map[string]*file
}

// file is one of them.
type file struct {
	contentType string
	plain       []byte
	// compressed is made when it is first asked for.
	compressed func() []byte
}

// contentTypes are those of the files that there may be, by the end of their name. The system's table is not asked: it may lack them.
var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
}

// New returns the files at the root of one or several file systems that are scripts, styles or pictures, to be served below a path
// ("/console/assets"). No two may have one name.
func New(below string, folders ...fs.FS) (*Set, error) {
	s := &Set{files: map[string]*file{}}
	sum := sha256.New()
	for _, folder := range folders {
		entries, err := fs.ReadDir(folder, ".") // sorted: the hash is the same everywhere
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			contentType, served := contentTypes[path.Ext(entry.Name())]
			if !served || entry.IsDir() {
				continue
			}
			if _, taken := s.files[entry.Name()]; taken {
				return nil, fmt.Errorf("two assets are named %s", entry.Name())
			}
			plain, err := fs.ReadFile(folder, entry.Name())
			if err != nil {
				return nil, err
			}
			_, _ = fmt.Fprintf(sum, "%s %d\n%s", entry.Name(), len(plain), plain) // a hash takes everything
			s.files[entry.Name()] = &file{contentType: contentType, plain: plain, compressed: sync.OnceValue(func() []byte { return Compress(plain) })}
		}
	}
	s.root = below + "/" + hex.EncodeToString(sum.Sum(nil))[:16] + "/"
	return s, nil
}

// Path is where a file is served. It panics where there is none: pages name their files in code.
func (s *Set) Path(name string) string {
	if _, found := s.files[name]; !found {
		panic("no asset " + name)
	}
	return s.root + name
}

// Paths are where the files are served.
func (s *Set) Paths() []string {
	all := make([]string, 0, len(s.files))
	for name := range s.files {
		all = append(all, s.root+name)
	}
	return all
}

// Forever is the Cache-Control of files whose path names their content.
const Forever = "public, max-age=31536000, immutable"

// Serve answers a request for a file, and reports whether there is one: the caller knows how to say that there is not.
func (s *Set) Serve(w http.ResponseWriter, r *http.Request) bool {
	name, within := strings.CutPrefix(r.URL.EscapedPath(), s.root)
	f, found := s.files[name]
	if !within || !found {
		return false
	}
	header, body := w.Header(), f.plain
	header.Set("Content-Type", f.contentType)
	header.Set("Cache-Control", Forever)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Vary", "Accept-Encoding")
	if AcceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		body = f.compressed()
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client is gone
	}
	return true
}

// AcceptsGzip reports whether a client takes gzip.
func AcceptsGzip(r *http.Request) bool { return names(r.Header.Values("Accept-Encoding"), "gzip") }

// Compress returns a content compressed by gzip, as well as that can.
func Compress(plain []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level exists
	_, _ = w.Write(plain)                                   // memory takes everything
	_ = w.Close()
	return out.Bytes()
}
