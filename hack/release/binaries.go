package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are the commands that a release contains.
var programs = []string{"cardea", "kubectl-cardea"}

// binary returns the path of a published program for a target.
func (r *release) binary(program string, t target) string {
	return filepath.Join(r.out, fmt.Sprintf("%s-%s-%s", program, r.version, t))
}

// writeBinaries builds every program for a target, and writes its bill of materials next to it.
func (r *release) writeBinaries(ctx context.Context, t target) error {
	for _, program := range programs {
		file := r.binary(program, t)
		if err := r.build(ctx, program, t, file); err != nil {
			return err
		}
		if err := r.writeBill(program, file, file+".cdx.json"); err != nil {
			return err
		}
	}
	return nil
}

// build builds a program as `make build` does: without cgo, and without paths and the state of the checkout in the
// binary, so that the same source gives the same binary. The compiler leaves out the debug information that -s and -w
// would remove, so that both builds share packages.
func (r *release) build(ctx context.Context, program string, t target, file string) error {
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w -X main.version="+r.version, "-o", file, "./cmd/"+program)
	command.Dir = r.root
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch, "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s for %s: %w\n%s", program, t, err, output)
	}
	return nil
}

// writeChecksums lists every file in the form that `sha256sum --check` reads.
func (r *release) writeChecksums() error {
	var lines []string
	err := filepath.WalkDir(r.out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		sum, err := digestOf(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		lines = append(lines, sum+"  "+filepath.ToSlash(name)+"\n")
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(strings.Join(lines, "")), 0o644)
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
