package provisioning

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// defaultCount is the number of resources of a page without count.
	defaultCount = 100
	// maxScanned is how many resources a filter without an index is compared with, and scannedAtOnce how many one query
	// reads.
	maxScanned, scannedAtOnce = 10_000, 500
)

// lister reads and renders the resources of one type.
type lister[T any] struct {
	parse  func(string) (*scim.Filter, error)
	total  func(people.Directory) int64
	find   func(u *account.Unit, filter people.SCIMFilter, offset, limit int) ([]T, error)
	match  func(*account.Unit, *scim.Filter, T) (bool, error)
	render func(*account.Unit, T, scim.Selection) ([]byte, error)
}

// page is the part of a list that a request asks for.
type page struct {
	// start is the position of the first resource, from 1. count is the number of resources, 0 for the total alone.
	start, count int
}

// page reads startIndex and count.
func (c *call) page() (p page, err error) {
	query := c.r.URL.Query()
	number := func(name string, absent int) int {
		text := query.Get(name)
		if text == "" || err != nil {
			return absent
		}
		n, bad := strconv.Atoi(text)
		if bad != nil {
			err = &scim.Error{Status: http.StatusBadRequest, Type: scim.InvalidValue, Detail: name + " is not a number"}
		}
		return n
	}
	p.start, p.count = max(number("startIndex", 1), 1), min(max(number("count", defaultCount), 0), scim.MaxResults)
	return p, err
}

// list responds with a page of resources, in the order of their ids, which is stable while others are added.
func list[T any](c *call, of lister[T]) error {
	p, err := c.page()
	if err != nil {
		return err
	}
	selection, err := c.selection()
	if err != nil {
		return err
	}
	var filter *scim.Filter
	if text := c.r.URL.Query().Get("filter"); text != "" {
		if filter, err = of.parse(text); err != nil {
			return err
		}
	}
	return c.view(func(u *account.Unit, d account.Directory) error {
		state, _, err := u.Directories().Directory(d.ID)
		if err != nil {
			return err
		}
		rows, total, err := find(c, u, of, filter, p, int(of.total(state)))
		if err != nil {
			return err
		}
		return c.stream(http.StatusOK, func(w io.Writer) error {
			return scim.WriteList(w, total, p.start, len(rows), func(yield func([]byte) error) error {
				for _, row := range rows {
					body, err := of.render(u, row, selection)
					if err != nil {
						return err
					}
					if err := yield(body); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
}

// find returns the resources of a page, and how many match in all.
func find[T any](c *call, u *account.Unit, of lister[T], filter *scim.Filter, p page, all int) ([]T, int, error) {
	if filter == nil {
		if p.count == 0 || p.start > all {
			return nil, all, nil
		}
		rows, err := of.find(u, people.SCIMFilter{}, p.start-1, p.count)
		return rows, all, err
	}
	indexed, possible := people.SCIMFilter{}, true
	lookup, found := filter.Lookup()
	if found {
		indexed, possible = indexOf(lookup)
	}
	if !possible {
		return nil, 0, nil
	}
	if indexed == (people.SCIMFilter{}) || lookup.Attribute == "emails.value" && all <= maxScanned {
		// The index of addresses has one of each user, so small directories are compared as a whole.
		indexed = people.SCIMFilter{}
		if all > maxScanned {
			return nil, 0, &scim.Error{Status: http.StatusBadRequest, Type: scim.TooMany, Detail: fmt.Sprintf(
				"the directory has more than %d resources: filter by userName, externalId, id, emails.value or displayName with eq", maxScanned)}
		}
		done, err := c.scanning.Take(c.r.Context(), c.directory.key())
		if err != nil {
			return nil, 0, err
		}
		defer done()
	}
	return compare(c, u, of, filter, indexed, p)
}

// compare compares the resources that an index finds, or all, with a filter.
func compare[T any](c *call, u *account.Unit, of lister[T], filter *scim.Filter, indexed people.SCIMFilter, p page) (rows []T, total int, err error) {
	for offset := 0; ; offset += scannedAtOnce {
		candidates, err := of.find(u, indexed, offset, scannedAtOnce)
		if err != nil {
			return nil, 0, err
		}
		c.rows += len(candidates)
		for _, row := range candidates {
			matches, err := of.match(u, filter, row)
			if err != nil {
				return nil, 0, err
			}
			if !matches {
				continue
			}
			if total++; total >= p.start && len(rows) < p.count {
				rows = append(rows, row)
			}
		}
		if len(candidates) < scannedAtOnce {
			return rows, total, nil
		}
	}
}

// indexOf returns the filter of the store for a lookup, and reports false if no resource can match.
func indexOf(lookup scim.Lookup) (f people.SCIMFilter, possible bool) {
	switch lookup.Attribute {
	case "userName", "displayName":
		f.Name = people.FoldEmail(lookup.Value)
	case "externalId":
		f.ExternalID = lookup.Value
	case "emails.value":
		f.Email = people.FoldEmail(lookup.Value)
	case "id", "members.value":
		id, err := ids.Parse(lookup.Value)
		if err != nil {
			return f, false
		}
		if lookup.Attribute == "id" {
			f.ID = id
		} else {
			f.Member = id
		}
	}
	return f, f != people.SCIMFilter{}
}

// stream writes a response in parts. If a part fails, it ends the connection: a client must not take a part for the
// whole.
func (c *call) stream(status int, write func(io.Writer) error) error {
	header := c.w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Type", mediaType+"; charset=utf-8")
	buffered := bufio.NewWriter(&begun{c: c, status: status})
	err := write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	if err == nil {
		return nil
	}
	if !c.streaming {
		return err // nothing was sent yet
	}
	if c.r.Context().Err() == nil {
		tracing.Logger(c.r.Context(), c.Log).Error(err, "A SCIM response was cut off", "route", c.r.Pattern, "directory", c.directory.key())
	}
	panic(http.ErrAbortHandler)
}

// begun sends the status with the first part of a response.
type begun struct {
	c      *call
	status int
}

func (b *begun) Write(part []byte) (int, error) {
	if !b.c.streaming {
		b.c.streaming = true
		b.c.w.WriteHeader(b.status)
	}
	return b.c.w.Write(part)
}
