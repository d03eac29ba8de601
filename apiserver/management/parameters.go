package management

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/openapi"
)

// Paging of lists.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// page returns the effective limit and offset of a list: a limit over the largest is clamped, below 1 refused.
func page(limit, offset *int64) (int, int, error) {
	size, skip := int64(defaultLimit), int64(0)
	if limit != nil {
		size = min(*limit, maxLimit)
	}
	if offset != nil {
		skip = *offset
	}
	var faults []apierror.Fault
	if size < 1 {
		faults = append(faults, tooSmall("?limit", 1))
	}
	if skip < 0 {
		faults = append(faults, tooSmall("?offset", 0))
	}
	if faults != nil {
		return 0, 0, apierror.Invalid(faults...)
	}
	return int(size), int(skip), nil
}

func tooSmall(field string, least int64) apierror.Fault {
	return apierror.Fault{Pointer: field, Message: fmt.Sprintf("must be at least %d", least)}
}

// pageFaults returns every fault of limit and offset: the generated code stops at the first.
func pageFaults(query url.Values) []apierror.Fault {
	var faults []apierror.Fault
	for _, parameter := range []struct {
		name  string
		least int64
	}{{"limit", 1}, {"offset", 0}} {
		field, sent := "?"+parameter.name, query[parameter.name]
		if len(sent) == 0 {
			continue
		}
		n, err := strconv.ParseInt(sent[0], 10, 64)
		switch {
		case len(sent) > 1:
			faults = append(faults, apierror.Fault{Pointer: field, Message: "was sent more than once: send it once"})
		case err != nil:
			faults = append(faults, apierror.Fault{Pointer: field, Message: "must be an integer that fits 64 bits"})
		case n < parameter.least:
			faults = append(faults, tooSmall(field, parameter.least))
		}
	}
	return faults
}

// parameterProblem names the parameters that could not be read.
func parameterProblem(query url.Values, err error) error {
	if faults := pageFaults(query); faults != nil {
		return apierror.Invalid(faults...)
	}
	var format *openapi.InvalidParamFormatError
	if errors.As(err, &format) {
		return apierror.Invalid(apierror.Fault{Pointer: "?" + format.ParamName, Message: "does not have the documented form: see /docs"})
	}
	return &apierror.Error{Status: http.StatusBadRequest, Message: "a parameter could not be read: see /docs for their forms", Cause: err}
}
