package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeChart packs the chart as `helm package` does, with the release's version and image. The archive does not depend
// on the time or the machine of the build.
func (r *release) writeChart() (err error) {
	chart := filepath.Join(r.root, "config", "chart", "cardea")
	file, err := os.Create(filepath.Join(r.out, "cardea-"+strings.TrimPrefix(r.version, "v")+".tgz"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed := gzip.NewWriter(file)
	archive := tar.NewWriter(compressed)
	err = filepath.WalkDir(chart, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".helmignore" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(chart, path)
		if err != nil {
			return err
		}
		if content, err = r.stamp(filepath.ToSlash(name), content); err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: "cardea/" + filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: r.created, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close(), compressed.Close())
}

// stamp writes version and image into the two files that name them.
func (r *release) stamp(name string, content []byte) ([]byte, error) {
	text := string(content)
	var err error
	switch name {
	case "Chart.yaml":
		if text, err = replaceLine(text, "version: ", "version: "+strings.TrimPrefix(r.version, "v")); err == nil {
			text, err = replaceLine(text, "appVersion: ", "appVersion: "+r.version)
		}
	case "values.yaml":
		text, err = replaceAll(text, "\n  repository: cardea\n", "\n  repository: "+r.image+"\n")
	}
	return []byte(text), err
}

// replaceLine replaces the first line that begins with begin, and returns an error if there is none.
func replaceLine(text, begin, line string) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	for i := range lines {
		if strings.HasPrefix(lines[i], begin) {
			lines[i] = line + "\n"
			return strings.Join(lines, ""), nil
		}
	}
	return replaceAll(text, "\n"+begin, "") // returns the error, which names the missing line
}
