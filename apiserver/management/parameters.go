package management

import (
	"errors"
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/problem"
)

// Paging of lists.
const (
	defaultLimit = 50
	maxLimit     = 100
)

// page returns the effective limit and offset of a list: a limit over the largest is clamped, below 1 refused.
func page(limit, offset *int64) (int, int, error) {
	var faults []problem.Item
	size, skip := int64(defaultLimit), int64(0)
	if limit != nil {
		size = min(*limit, maxLimit)
		if *limit < 1 {
			faults = append(faults, problem.Item{Field: "?limit", Message: "must be at least 1"})
		}
	}
	if offset != nil {
		skip = *offset
		if skip < 0 {
			faults = append(faults, problem.Item{Field: "?offset", Message: "must be at least 0"})
		}
	}
	if faults != nil {
		return 0, 0, problem.Invalid(faults...)
	}
	return int(size), int(skip), nil
}

// parameterProblem names the parameter that could not be read.
func parameterProblem(err error) error {
	var format *openapi.InvalidParamFormatError
	var several *openapi.TooManyValuesForParamError
	var required *openapi.RequiredParamError
	switch {
	case errors.As(err, &format):
		return problem.Invalid(problem.Item{Field: "?" + format.ParamName, Message: "does not have the documented form or does not fit: see /docs"})
	case errors.As(err, &several):
		return problem.Invalid(problem.Item{Field: "?" + several.ParamName, Message: "was sent more than once: send it once"})
	case errors.As(err, &required):
		return problem.Invalid(problem.Item{Field: "?" + required.ParamName, Message: "is required: send it"})
	}
	return &problem.Problem{Status: http.StatusBadRequest, Message: "a parameter could not be read: see /docs for their forms", Cause: err}
}
