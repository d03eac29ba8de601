package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
)

// rootKey returns the path of the file with the install's root key, and creates the key if it does not exist. The key
// is kept, because the store that is kept has values sealed with it.
func (r *localRun) rootKey() (string, error) {
	file := r.path("root.key")
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	created, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return file, nil
	}
	if err != nil {
		return "", err
	}
	_, err = created.WriteString(base64.StdEncoding.EncodeToString(key[:]) + "\n")
	return file, errors.Join(err, created.Close())
}
