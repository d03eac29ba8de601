package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	containers "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// source is the URL of the project's repository. Registries link to it.
const source = "https://github.com/cardea-iam/cardea"

// user is the UID and GID of the image's process. No node has an account with them. The manifests in config/ use them,
// too.
const user = "65532:65532"

// writeImage writes the index of the Linux targets as an OCI image layout into the folder image, and returns its
// digest. It also pushes the index if -push is set.
func (r *release) writeImage(ctx context.Context) (string, error) {
	certificates, err := layer(r.created, "etc/ssl/certs/ca-certificates.crt", 0o644, authorities())
	if err != nil {
		return "", err
	}
	annotations := r.labels()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		image, err := r.imageOf(ctx, t, certificates, annotations)
		if err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}},
		})
	}
	index = mutate.Annotations(index, annotations).(v1.ImageIndex)
	folder := filepath.Join(r.out, "image")
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", err
	}
	named := map[string]string{"org.opencontainers.image.ref.name": r.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(named)); err != nil {
		return "", err
	}
	digest, err := index.Digest()
	if err != nil {
		return "", err
	}
	return digest.String(), r.pushIndex(ctx, index)
}

// pushIndex pushes the index to the name of -push. Without a name, it does nothing.
func (r *release) pushIndex(ctx context.Context, index v1.ImageIndex) error {
	if r.push == "" {
		return nil
	}
	to, err := containers.ParseReference(r.push)
	if err != nil {
		return fmt.Errorf("-push: %w", err)
	}
	return remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// imageOf returns the image for a target. It contains only the binary and the certificates of authorities: no shell, no
// user account, and no folder that its process can write to.
func (r *release) imageOf(ctx context.Context, t target, certificates v1.Layer, annotations map[string]string) (v1.Image, error) {
	file := r.binary("cardea", t)
	if _, err := os.Stat(file); err != nil { // absent unless `all` built it before
		folder, err := os.MkdirTemp("", "cardea-image-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		file = filepath.Join(folder, "cardea")
		if err := r.build(ctx, "cardea", t, file); err != nil {
			return nil, err
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	binary, err := layer(r.created, "cardea", 0o755, content)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: certificates, History: r.history("certificates of authorities")},
		mutate.Addendum{Layer: binary, History: r.history("cardea " + r.version)})
	if err != nil {
		return nil, err
	}
	image, err = mutate.ConfigFile(image, r.configuration(image, t))
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, annotations).(v1.Image), nil
}

// configuration returns the same configuration as the Dockerfile's image has.
func (r *release) configuration(image v1.Image, t target) *v1.ConfigFile {
	configuration, err := image.ConfigFile()
	if err != nil {
		panic(err) // it was made a moment ago, in memory
	}
	configuration = configuration.DeepCopy()
	configuration.OS, configuration.Architecture, configuration.Created = t.os, t.arch, v1.Time{Time: r.created}
	configuration.Config = v1.Config{
		User: user, Entrypoint: []string{"/cardea"}, WorkingDir: "/", Labels: r.labels(),
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}, "8082/tcp": {}, "8083/tcp": {}, "8090/tcp": {}},
	}
	return configuration
}

func (r *release) history(what string) v1.History {
	return v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "hack/release", Comment: what}
}

// labels say where the image comes from.
func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "cardea",
		"org.opencontainers.image.description": "Identity and access as Kubernetes resources",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.url":         source,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// layer returns a layer with one file and the folders above it, all owned by root and with the time of the release.
func layer(created time.Time, path string, mode int64, content []byte) (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for i, letter := range path {
		if letter == '/' {
			header := &tar.Header{Typeflag: tar.TypeDir, Name: path[:i+1], Mode: 0o755, ModTime: created, Format: tar.FormatPAX}
			if err := writer.WriteHeader(header); err != nil {
				return nil, err
			}
		}
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content)), ModTime: created, Format: tar.FormatPAX}
	if err := writer.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// authorities returns the certificates of Mozilla's authorities in PEM. They come from a module and not from the
// machine, so that every machine builds the same image.
func authorities() []byte {
	var bundled bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // trusted only with constraints, which a file of certificates cannot express
		}
		_ = pem.Encode(&bundled, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer never fails
	}
	return bundled.Bytes()
}
