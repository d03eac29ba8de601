package migrations

import (
	"errors"
	"io/fs"
	"slices"
)

// layered presents the files of several folders as one folder. Each name is in only one of them.
type layered []fs.FS

// Open implements fs.FS.
func (l layered) Open(name string) (fs.File, error) {
	for _, folder := range l[:len(l)-1] {
		if file, err := folder.Open(name); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return l[len(l)-1].Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (l layered) ReadDir(name string) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	for _, folder := range l {
		entries, err := fs.ReadDir(folder, name)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int {
		if a.Name() < b.Name() {
			return -1
		}
		return 1
	})
	return all, nil
}
