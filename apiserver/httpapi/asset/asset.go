// Package asset serves the embedded files of pages: scripts, styles and pictures. Their path has a hash of their
// content, so that browsers can cache them permanently and never mix two versions.
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

// file is a file of the set.
type file struct {
	contentType string
	plain       []byte
	// compressed is made at the first request for it.
	compressed func() []byte
}

// contentTypes are the types of the supported files by the suffix of their names. The system's table is not used,
// because it may lack them.
var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
}

// New returns the scripts, styles and pictures at the root of one or several file systems, to be served below a path
// ("/console/assets"). Names must be unique.
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
			_, _ = fmt.Fprintf(sum, "%s %d\n", entry.Name(), len(plain)) // writes to a hash do not fail
			_, _ = sum.Write(plain)
			s.files[entry.Name()] = &file{contentType: contentType, plain: plain, compressed: sync.OnceValue(func() []byte { return Compress(plain) })}
		}
	}
	s.root = below + "/" + hex.EncodeToString(sum.Sum(nil))[:16] + "/"
	return s, nil
}

// Path returns the path of a file. It panics if there is none, because pages name their files in code.
func (s *Set) Path(name string) string {
	if _, found := s.files[name]; !found {
		panic("no asset " + name)
	}
	return s.root + name
}

// Paths returns the paths of the files.
func (s *Set) Paths() []string {
	all := make([]string, 0, len(s.files))
	for name := range s.files {
		all = append(all, s.root+name)
	}
	return all
}

// Forever is the Cache-Control of files whose path names their content.
const Forever = "public, max-age=31536000, immutable"

// Serve responds to a request for a file. It returns false without a response if there is none.
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
		_, _ = w.Write(body) // fails only if the client is disconnected
	}
	return true
}

// AcceptsGzip reports whether a client accepts gzip.
func AcceptsGzip(r *http.Request) bool { return names(r.Header.Values("Accept-Encoding"), "gzip") }

// Compress returns a content compressed with gzip at the best level.
func Compress(plain []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level exists
	_, _ = w.Write(plain)                                   // a bytes.Buffer returns no error
	_ = w.Close()
	return out.Bytes()
}
