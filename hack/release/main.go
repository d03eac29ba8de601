// Command release makes what a release publishes, from the repository's root: static binaries with a bill of materials
// each, an OCI image of two platforms without a container engine, the Helm chart, the install manifests, and the
// checksums of them all. Its output depends only on the commit, the version and the Go release, so that every build can
// be reproduced.
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

// release says what is made, and of what.
type release struct {
	root    string // of the repository
	out     string
	version string // with a leading v
	image   string // without a tag
	push    string
	// created is the commit's time, revision the commit.
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
	flags.StringVar(&r.version, "version", "", "version, such as v0.1.0 (absent: what the file VERSION says)")
	flags.StringVar(&r.image, "image", "cardea", "name of the image in manifests and chart, without a tag")
	flags.StringVar(&r.push, "push", "", "push the image to this name too, with the credentials of ~/.docker/config.json")
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
		return fmt.Errorf("%q is nothing that can be made: say image, chart or all, after the flags", what)
	}
}

// versions are those of semver.org, with the v of Go and of git's tags.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// complete reads what was not given, and refuses what cannot be published.
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
		return fmt.Errorf("version %q is none of semver.org: give one such as v0.1.0 or v0.2.0-rc.1", r.version)
	}
	if strings.Contains(r.image[strings.LastIndex(r.image, "/")+1:], ":") || strings.Contains(r.image, "@") {
		return fmt.Errorf("image %q has a tag: give the name alone, the tag is the version", r.image)
	}
	return r.readCommit(ctx)
}

// dirty ends the revision of what was made from changed files.
const dirty = "-dirty"

// readCommit takes revision and time from git, and the time from SOURCE_DATE_EPOCH where it is set.
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

// all writes everything into a folder that has nothing else in it, for its checksums to be whole.
func (r *release) all(ctx context.Context) error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: remove it first, its checksums would name what is old", r.out)
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

// writeManifests renders what users install without Helm.
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

// replaceAll fails where there is nothing to replace: what is published would name something else.
func replaceAll(text, old, replacement string) (string, error) {
	if !strings.Contains(text, old) {
		return "", fmt.Errorf("no %q to replace", strings.TrimSpace(old))
	}
	return strings.ReplaceAll(text, old, replacement), nil
}
