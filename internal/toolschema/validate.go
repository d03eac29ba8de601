package toolschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/cardea-iam/cardea/internal/schemafield"
)

const (
	// MaxFaults is how many faults of a value are named.
	MaxFaults = 20
	// maxFault is the length of the text of a fault, in bytes: texts quote values.
	maxFault = 300
	// location is the name under which the compiler knows a schema.
	location = "schema:tool"
)

// asserted are the formats that values must have. Other formats are notes for readers.
var asserted = []string{"date-time", "date", "time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}

// Validator checks values against a schema. It is safe for concurrent use.
type Validator struct{ schema *jsonschema.Schema }

// Compile returns the validator of a schema.
func Compile(s *Schema) (*Validator, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	dropNotes(document)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(location, document); err != nil {
		return nil, err
	}
	schema, err := c.Compile(location)
	if err != nil {
		return nil, err
	}
	return &Validator{schema}, nil
}

// dropNotes removes the formats that are not asserted: the library asserts more of them.
func dropNotes(document any) {
	object, is := document.(map[string]any)
	if !is {
		return
	}
	if format, has := object["format"].(string); has && !slices.Contains(asserted, format) {
		delete(object, "format")
	}
	dropNotes(object["items"])
	if properties, has := object["properties"].(map[string]any); has {
		for _, property := range properties {
			dropNotes(property)
		}
	}
}

// Read reads a JSON text as the validator takes it: numbers keep their digits.
func Read(text []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(text)) }

// Faults returns what contradicts the schema in a value that Read returned, at most MaxFaults, each with its JSON
// pointer; none if the value is valid.
func (v *Validator) Faults(value any) []string {
	if faults := faultsOfNumbers(value, nil, nil, unfit); len(faults) > 0 {
		return faults // exact arithmetic with such numbers would take long
	}
	err := v.schema.Validate(value)
	if err == nil {
		return nil
	}
	invalid, is := err.(*jsonschema.ValidationError) //nolint:errorlint // the library returns no wrapped errors
	if !is {
		return []string{err.Error()}
	}
	faults := leaves(invalid, nil)
	slices.Sort(faults)
	faults = slices.Compact(faults)
	return faults[:min(len(faults), MaxFaults)]
}

// Inexact returns the faults of whole numbers that are not exact in the canonical form of a value that Read returned,
// at most MaxFaults. Other JSON readers would get another number.
func Inexact(value any) []string {
	return faultsOfNumbers(value, nil, nil, func(number string) string {
		if strings.ContainsAny(number, ".eE") {
			return ""
		}
		rounded, err := strconv.ParseFloat(number, 64)
		if text := strconv.FormatFloat(rounded, 'f', -1, 64); err == nil && (text == number || text == "-0" || number == "-0") {
			return ""
		}
		return "JSON readers round this whole number: send it as a text, if the tool takes one"
	})
}

// unfit returns the fault of a number that does not fit, "" for others.
func unfit(number string) string {
	if schemafield.Fits(number) {
		return ""
	}
	return "the number is too long, too large or too small"
}

// faultsOfNumbers returns the faults of the numbers of a value, at most MaxFaults.
func faultsOfNumbers(value any, at []string, faults []string, fault func(number string) string) []string {
	if len(faults) == MaxFaults {
		return faults
	}
	switch v := value.(type) {
	case json.Number:
		if text := fault(v.String()); text != "" {
			faults = append(faults, pointer(at)+": "+text)
		}
	case []any:
		for i := range v {
			faults = faultsOfNumbers(v[i], append(at, strconv.Itoa(i)), faults, fault)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			faults = faultsOfNumbers(v[name], append(at, name), faults, fault)
		}
	}
	return faults
}

func leaves(e *jsonschema.ValidationError, faults []string) []string {
	for _, cause := range e.Causes {
		faults = leaves(cause, faults)
	}
	if len(e.Causes) == 0 {
		text := fmt.Sprintf("%s: %s", pointer(e.InstanceLocation), e.ErrorKind.LocalizedString(printer))
		if len(text) > maxFault {
			text = strings.ToValidUTF8(text[:maxFault], "") + "..."
		}
		faults = append(faults, text)
	}
	return faults
}

var printer = message.NewPrinter(language.English)

// pointer returns a JSON pointer (RFC 6901); that of the whole value is "/".
func pointer(path []string) string {
	if len(path) == 0 {
		return "/"
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var out strings.Builder
	for _, step := range path {
		out.WriteString("/" + escape.Replace(step))
	}
	return out.String()
}
