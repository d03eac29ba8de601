// Package backup writes a store into one file and restores it. The file is a tar archive of a manifest and the engine's
// own file (an SQLite file, or pg_dump's custom format). `tar -x` and the engine's own programs can read it without
// Cardea.
package backup

import (
	"archive/tar"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

const (
	// format is the version of the archive's format.
	format = 1
	// manifestName and contentName are the members of the archive, in this order.
	manifestName, contentName = "manifest.json", "store"
	// maxManifest bounds the manifest, in bytes.
	maxManifest = 64 << 10
	// keyPurpose derives only the fingerprint of a root key in a manifest.
	keyPurpose = "cardea backup root key v1"
	// macPurpose derives only the key of a manifest's MAC.
	macPurpose = "cardea backup manifest MAC v1"
)

// Manifest describes a backup.
type Manifest struct {
	Format int `json:"format"`
	// Release is the version of cardea that wrote the backup. TakenAt is when the backup began.
	Release string    `json:"release"`
	TakenAt time.Time `json:"taken_at"`
	// Engine is "sqlite" or "postgres", Schema the version of its tables, StoreID its identity.
	Engine  string `json:"engine"`
	Schema  int64  `json:"schema"`
	StoreID string `json:"store_id"`
	// RootKeys are fingerprints of the root keys that open the sealed values. The first is that of the key that seals
	// new values. They contain no part of a key.
	RootKeys []string `json:"root_keys,omitempty"`
	// SHA256 is the digest of the content, in hexadecimal.
	SHA256 string `json:"sha256"`
	// MAC is the HMAC-SHA-256 of all the other members under a key derived from the root key that seals, in hexadecimal.
	// It is empty if the backup was taken without root keys, or by a release without MACs.
	MAC string `json:"mac,omitempty"`
}

// mac returns the MAC of a manifest under a key.
func (m Manifest) mac(key []byte) []byte {
	m.MAC = ""
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // cannot fail: strings, numbers and a time before the year 10000
	}
	sum := hmac.New(sha256.New, key)
	sum.Write(text)
	return sum.Sum(nil)
}

// sign sets the MAC under the root key that seals, if there are root keys.
func (m *Manifest) sign(ring *seal.Keyring) {
	if keys := ring.Subkeys(macPurpose); len(keys) > 0 {
		m.MAC = hex.EncodeToString(m.mac(keys[0].Key))
	}
}

// checkOrigin returns nil if the MAC was made with one of the root keys, or if the manifest has no MAC and
// acceptUnsigned is true. Otherwise it returns ErrUnsigned or ErrOrigin.
func (m Manifest) checkOrigin(ring *seal.Keyring, acceptUnsigned bool) error {
	if m.MAC == "" {
		if acceptUnsigned {
			return nil
		}
		return fmt.Errorf("%w: it was taken without --root-key or by an older release; if you trust its source and know that it was not changed, use --accept-unsigned", ErrUnsigned)
	}
	sent, err := hex.DecodeString(m.MAC)
	for _, key := range ring.Subkeys(macPurpose) {
		if err == nil && hmac.Equal(sent, m.mac(key.Key)) {
			return nil
		}
	}
	return fmt.Errorf("%w: none of the keys in --root-key made its MAC, or its manifest was changed: restore another backup", ErrOrigin)
}

// fingerprints returns the fingerprints of root keys.
func fingerprints(ring *seal.Keyring) (of []string) {
	for _, key := range ring.Subkeys(keyPurpose) {
		of = append(of, hex.EncodeToString(key.Key[:16]))
	}
	return of
}

// Take writes a backup of the store at a URL into a new file, which only its owner may read. The store may be in use:
// the backup is a snapshot of one moment. The file appears complete or not at all.
func Take(ctx context.Context, store, file, release string, ring *seal.Keyring) (m Manifest, err error) {
	if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
		return m, fmt.Errorf("%s is there already: choose a name that does not exist yet", file)
	}
	work, err := os.MkdirTemp(filepath.Dir(file), ".cardea-backup-")
	if err != nil {
		return m, fmt.Errorf("create a temporary folder next to %s: %w", file, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	m = Manifest{Format: format, Release: release, TakenAt: time.Now().UTC(), RootKeys: fingerprints(ring)}
	content := filepath.Join(work, contentName)
	copied, err := sqlstore.Copy(ctx, store, content)
	if err != nil {
		return m, err
	}
	m.Engine, m.Schema, m.StoreID = copied.Engine, copied.Schema, copied.StoreID
	if m.SHA256, err = digest(content); err != nil {
		return m, err
	}
	m.sign(ring)
	archive := filepath.Join(work, "archive")
	if err := pack(archive, m, content); err != nil {
		return m, fmt.Errorf("write %s: %w", file, err)
	}
	return m, os.Link(archive, file) // unlike os.Rename, os.Link never overwrites a file
}

func digest(file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, in)
	return hex.EncodeToString(sum.Sum(nil)), err
}

func pack(archive string, m Manifest, content string) (err error) {
	out, err := os.OpenFile(archive, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	in, err := os.Open(content)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	said, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	err = w.WriteHeader(&tar.Header{Name: manifestName, Mode: 0o600, Size: int64(len(said)), ModTime: m.TakenAt})
	if err == nil {
		_, err = w.Write(said)
	}
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: contentName, Mode: 0o600, Size: info.Size(), ModTime: m.TakenAt})
	}
	if err == nil {
		_, err = io.Copy(w, in)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = out.Sync()
	}
	return err
}

// Errors of Restore, besides those of the engine. If Restore returns one of them, it has not written to the store.
var (
	// ErrNoBackup: the file is not a backup, is damaged, or has a format newer than this binary.
	ErrNoBackup = errors.New("no backup that can be restored")
	// ErrEngine: the backup is of another engine than the store.
	ErrEngine = errors.New("a backup of another engine")
	// ErrNewer: the backup has tables that this binary does not know.
	ErrNewer = errors.New("a backup of a newer schema")
	// ErrRootKey: the sealed values of the backup cannot be opened.
	ErrRootKey = errors.New("a backup under another root key")
	// ErrUnsigned: the backup has no MAC, so nothing proves that this install took it.
	ErrUnsigned = errors.New("a backup without a proof of origin")
	// ErrOrigin: the MAC of the backup is wrong.
	ErrOrigin = errors.New("a backup that this install did not take, or that was changed since")
)

// Restore writes a backup into an empty store. If acceptUnsigned is true, it also accepts a backup without a MAC. It
// may return ErrNoBackup, ErrEngine, ErrNewer, ErrRootKey, ErrUnsigned, ErrOrigin and sqlstore.ErrNotEmpty.
func Restore(ctx context.Context, store, file string, ring *seal.Keyring, acceptUnsigned bool) (m Manifest, err error) {
	in, err := os.Open(file)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrNoBackup, err)
	}
	defer func() { _ = in.Close() }()
	archive := tar.NewReader(in)
	if m, err = readManifest(archive); err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrNoBackup, file, err)
	}
	if err := m.fits(store, ring); err != nil {
		return m, err
	}
	if err := m.checkOrigin(ring, acceptUnsigned); err != nil {
		return m, err
	}
	work, err := os.MkdirTemp(sqlstore.Folder(store), ".cardea-restore-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	content := filepath.Join(work, contentName)
	if err := unpack(archive, content, m.SHA256); err != nil {
		return m, fmt.Errorf("%w: %s: %w", ErrNoBackup, file, err)
	}
	return m, sqlstore.Restore(ctx, store, content)
}

func readManifest(archive *tar.Reader) (m Manifest, err error) {
	header, err := archive.Next()
	if err != nil {
		return m, fmt.Errorf("it is not a tar archive: %w", err)
	}
	if header.Name != manifestName || header.Size > maxManifest {
		return m, errors.New("it does not begin with a manifest")
	}
	if err := json.NewDecoder(archive).Decode(&m); err != nil {
		return m, fmt.Errorf("its manifest cannot be read: %w", err)
	}
	if m.Format != format {
		return m, fmt.Errorf("its format is %d, and this cardea reads format %d: use the cardea of %s", m.Format, format, m.Release)
	}
	return m, nil
}

// fits returns nil if this binary can restore the backup into the store at a URL with these root keys. Otherwise it
// returns ErrEngine, ErrNewer or ErrRootKey.
func (m Manifest) fits(store string, ring *seal.Keyring) error {
	if sqlstore.Engine(store) != m.Engine {
		return fmt.Errorf("%w: it is a backup of %s: give the URL of a %[2]s store", ErrEngine, m.Engine)
	}
	known, err := sqlstore.Schema()
	if err != nil {
		return err
	}
	if m.Schema > known {
		return fmt.Errorf("%w: its tables have version %d, and this cardea knows versions up to %d: use %s or later", ErrNewer, m.Schema, known, m.Release)
	}
	held := fingerprints(ring)
	for _, wanted := range m.RootKeys {
		if !slices.Contains(held, wanted) {
			return fmt.Errorf("%w: give each key file that the install had when the backup was taken (--root-key); only these keys open the signing keys and credentials in it", ErrRootKey)
		}
	}
	return nil
}

func unpack(archive *tar.Reader, to, want string) (err error) {
	header, err := archive.Next()
	if err != nil || header.Name != contentName {
		return errors.Join(errors.New("it has no store after the manifest"), err)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), archive)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != want {
		return errors.New("the digest of its content differs from the manifest: it was damaged")
	}
	return nil
}
