package authn

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// uniqueNames returns an error unless raw is one JSON value without a member twice, at any depth.
func uniqueNames(raw []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errRefused
	}
	return nil
}
