package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/store"
)

// The bounds of store.Put.
const (
	maxReservations     = 256
	maxReservationBytes = 512
)

// Checked returns a copy of the put with its reservations sorted and without duplicates. The copy has its own memory,
// because a caller whose context ended may reuse its memory while the write still waits. Checked refuses values that an
// engine would refuse, because a failure in a shared transaction would affect the writes of other callers.
func Checked(put store.Put) (store.Put, error) {
	if err := checkOwner(put.Owner); err != nil {
		return put, err
	}
	put.Reservations = slices.Compact(slices.Sorted(slices.Values(put.Reservations)))
	put.Displace = slices.Clone(put.Displace)
	// An empty payload must not be nil, which would be stored as NULL.
	put.Payload = append([]byte{}, put.Payload...)
	put.Retained, put.Revision = false, 0
	switch {
	case put.ID <= 0:
		return put, fmt.Errorf("%w: %s: id %d is not positive", store.ErrInvalid, put.Identity, put.ID)
	case len(put.Reservations) > maxReservations:
		return put, fmt.Errorf("%w: %s: %d reservations, at most %d", store.ErrInvalid, put.Identity, len(put.Reservations), maxReservations)
	}
	for _, key := range put.Reservations {
		if key == "" || len(key) > maxReservationBytes {
			return put, fmt.Errorf("%w: %s: a reservation of %d bytes, must be 1 to %d",
				store.ErrInvalid, put.Identity, len(key), maxReservationBytes)
		}
	}
	if err := checkText(put.Identity, put.Deployment, put.Key, put.Hash); err != nil {
		return put, err
	}
	if err := checkText(put.Identity, put.Reservations...); err != nil {
		return put, err
	}
	for _, owner := range put.Displace {
		if err := checkOwner(owner); err != nil {
			return put, err
		}
	}
	return put, nil
}

func checkOwner(owner store.Owner) error {
	if owner.Kind == "" || owner.Name == "" || owner.UID == "" {
		return fmt.Errorf("%w: %s: kind, name and uid must be set", store.ErrInvalid, owner.Identity)
	}
	return checkText(owner.Identity, owner.Kind, owner.Namespace, owner.Name, owner.UID)
}

// checkText refuses text that PostgreSQL cannot store as TEXT.
func checkText(id store.Identity, values ...string) error {
	for _, value := range values {
		if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("%w: %q has text that is not UTF-8 or has a zero byte", store.ErrInvalid, id.String())
		}
	}
	return nil
}
