// Command release makes the files of a release, from the repository's root: static binaries, each with a bill of
// materials, an OCI image for two platforms, the Helm chart, the install manifests, and the checksums of all files. It
// needs no container engine. Its output depends only on the commit, the version and the Go release, so that every build
// can be reproduced.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// release has the settings of a release and the commit that it is made from.
type release struct {
	root    string // of the repository
	out     string
	version string // with a leading v
	image   string // without a tag
	push    string
	// created is the time of the commit, or SOURCE_DATE_EPOCH. revision is the commit's hash, with dirty at its end if
	// files were changed.
	created  time.Time
	revision string
	// targets of binaries; the image has the Linux ones.
	targets []target
	kubectl string
}

type target struct{ os, arch string }

func (t target) String() string { return t.os + "-" + t.arch }

var everywhere = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	r := release{targets: everywhere}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&r.root, "root", ".", "the repository")
	flags.StringVar(&r.out, "out", "dist", "folder to write to")
	flags.StringVar(&r.version, "version", "", "version, such as v0.1.0 (absent: the version in the file VERSION)")
	flags.StringVar(&r.image, "image", "cardea", "name of the image in manifests and chart, without a tag")
	flags.StringVar(&r.push, "push", "", "also push the image to this name, with the credentials of ~/.docker/config.json")
	flags.StringVar(&r.kubectl, "kubectl", "kubectl", "kubectl, which renders the manifests")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if err := r.complete(ctx); err != nil {
		return err
	}
	switch what := flags.Arg(0); what {
	case "image":
		digest, err := r.writeImage(ctx)
		if err == nil {
			fmt.Printf("%s of %s:%s is in %s\n", digest, r.image, r.version, filepath.Join(r.out, "image"))
		}
		return err
	case "chart":
		if err := os.MkdirAll(r.out, 0o755); err != nil {
			return err
		}
		return r.writeChart()
	case "all":
		if strings.HasSuffix(r.revision, dirty) {
			return errors.New("tracked files differ from the commit that the release would name: commit or stash them")
		}
		return r.all(ctx)
	default:
		return fmt.Errorf("unknown target %q: say image, chart or all, after the flags", what)
	}
}

// versions matches a version of semver.org with a leading v, as Go and git tags have it.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// complete fills in settings that are absent, and returns an error for settings that cannot be published.
func (r *release) complete(ctx context.Context) error {
	for _, path := range []*string{&r.root, &r.out} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if r.version == "" {
		content, err := os.ReadFile(filepath.Join(r.root, "VERSION"))
		if err != nil {
			return err
		}
		r.version = strings.TrimSpace(string(content))
	}
	if !strings.HasPrefix(r.version, "v") {
		r.version = "v" + r.version
	}
	if !versions.MatchString(r.version) {
		return fmt.Errorf("version %q does not have the form of semver.org: give one such as v0.1.0 or v0.2.0-rc.1", r.version)
	}
	if strings.Contains(r.image[strings.LastIndex(r.image, "/")+1:], ":") || strings.Contains(r.image, "@") {
		return fmt.Errorf("image %q has a tag: give the name alone, the tag is the version", r.image)
	}
	return r.readCommit(ctx)
}

// dirty is the end of the revision if the release is made from changed files.
const dirty = "-dirty"

// readCommit takes the revision and the time from git. If SOURCE_DATE_EPOCH is set, it is the time instead.
func (r *release) readCommit(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, "git", "-C", r.root, "log", "-1", "--format=%H %ct").Output()
	if err != nil {
		return fmt.Errorf("git log: %w; a release is made from a checkout", err)
	}
	revision, seconds, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	if given := os.Getenv("SOURCE_DATE_EPOCH"); given != "" {
		seconds = given
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("time of the commit %q: give SOURCE_DATE_EPOCH as seconds since 1970", seconds)
	}
	changed, err := exec.CommandContext(ctx, "git", "-C", r.root, "status", "--porcelain").Output()
	if err != nil {
		return fmt.Errorf("git status: %w", err)
	}
	if len(changed) > 0 {
		revision += dirty
	}
	r.revision, r.created = revision, time.Unix(unix, 0).UTC()
	return nil
}

// all writes all files of the release. The folder must be empty, because the checksums cover all its files.
func (r *release) all(ctx context.Context) error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it first, because the checksums would include its old files", r.out)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, t := range r.targets {
		if err := r.writeBinaries(ctx, t); err != nil {
			return err
		}
	}
	digest, err := r.writeImage(ctx)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.out, "image-digest.txt"), []byte(digest+"\n"), 0o644); err != nil {
		return err
	}
	if err := r.writeChart(); err != nil {
		return err
	}
	if err := r.writeManifests(ctx); err != nil {
		return err
	}
	return r.writeChecksums()
}

// writeManifests renders the manifests for installs without Helm.
func (r *release) writeManifests(ctx context.Context) error {
	for folder, name := range map[string]string{"default": "install.yaml", "default-standalone": "install-standalone.yaml"} {
		command := exec.CommandContext(ctx, r.kubectl, "kustomize", filepath.Join(r.root, "config", folder))
		command.Stderr = os.Stderr
		output, err := command.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		text, err := replaceAll(string(output), "image: cardea:latest\n", "image: "+r.image+":"+r.version+"\n")
		if err != nil {
			return fmt.Errorf("config/%s: %w", folder, err)
		}
		if err := os.WriteFile(filepath.Join(r.out, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replaceAll returns an error if the text does not contain old, because the published file would then have a wrong
// value.
func replaceAll(text, old, replacement string) (string, error) {
	if !strings.Contains(text, old) {
		return "", fmt.Errorf("no %q to replace", strings.TrimSpace(old))
	}
	return strings.ReplaceAll(text, old, replacement), nil
}
