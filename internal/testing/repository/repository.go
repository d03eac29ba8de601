// Package repository finds the repository's root folder for tests.
package repository

import (
	"os"
	"path/filepath"
)

// Root returns the nearest folder with the file PROJECT, from the working folder upward: go test runs a test in its
// package's folder. The paths of the sources in a binary are of no use, because -trimpath removes the repository's
// folder from them. It returns "." if there is no such folder.
func Root() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "PROJECT")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "."
		}
		dir = parent
	}
}
