package toolform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// Fault is what of a declared tool cannot be called.
type Fault struct {
	// Path is the field, such as "spec.endpoint".
	Path string
	// Text says what is wrong and how to fix it.
	Text string
}

func (f *Fault) Error() string { return f.Path + ": " + f.Text }

func fault(path, format string, args ...any) *Fault {
	return &Fault{path, fmt.Sprintf(format, args...)}
}

// Check returns the first fault of a tool, nil if there is none. A tool without an endpoint has no fault of its
// endpoint.
func Check(t *document.AITool) *Fault {
	for _, rule := range []func(*document.AITool) *Fault{checkEndpoint, checkPlaceholders, checkURLParams, checkBody, checkNames, checkHeaders, checkValues, checkAudience} {
		if found := rule(t); found != nil {
			return found
		}
	}
	return nil
}

func checkEndpoint(t *document.AITool) *Fault {
	if t.Endpoint == "" {
		return nil
	}
	const path = "spec.endpoint"
	scheme, rest, _ := strings.Cut(t.Endpoint, "://")
	authority := rest
	if at := strings.IndexAny(rest, "/?#"); at >= 0 {
		authority = rest[:at]
	}
	parsed, err := url.Parse("https://" + authority)
	switch {
	case strings.ContainsAny(authority, "{}"):
		return fault(path, "has a placeholder in its host: write the host itself, placeholders are for path and query")
	case scheme != "https" && scheme != "http" || err != nil || parsed.Host == "":
		return fault(path, "is no http or https URL: write https://host/path")
	case parsed.User != nil:
		return fault(path, "contains credentials: use spec.headers with valueFrom")
	case strings.Contains(t.Endpoint, "#"):
		return fault(path, "has a fragment, which is never sent: remove it")
	}
	return nil
}

// checkPlaceholders requires that each placeholder is a parameter, and that those of the path have always a value. A
// pair of the query whose placeholder has no value is not sent.
func checkPlaceholders(t *document.AITool) *Fault {
	fields := map[string]PlacedField{}
	for _, f := range Placed(t) {
		fields[f.Name] = f
	}
	for _, name := range Placeholders(t.Endpoint) {
		f, found := fields[name]
		switch {
		case !found || f.Place != InPath && f.Place != InQuery:
			return fault("spec.endpoint", "the placeholder {%s} is no parameter: add it to spec.urlParamsSchema, or remove it", name)
		case f.Place == InPath && !f.Required:
			return fault("spec.endpoint", "the placeholder {%s} of the path has a parameter that may be absent: set its required to true", name)
		}
	}
	return nil
}

func checkURLParams(t *document.AITool) *Fault {
	for i, f := range t.URLParamsSchema {
		path := fmt.Sprintf("spec.urlParamsSchema[%d]", i)
		items := f.ItemsType
		if f.ItemsSchema != nil {
			items = f.ItemsSchema.FieldType
		}
		switch {
		case f.FieldType == "OBJECT" || f.FieldType == "ARRAY" && items == "OBJECT":
			return fault(path, "an object cannot be sent in a URL: use spec.requestBodySchema, or one parameter for each member")
		case f.FieldType == "ARRAY" && items == "ARRAY":
			return fault(path, "a list of lists cannot be sent in a URL: use a list of texts or numbers")
		}
	}
	return nil
}

func checkBody(t *document.AITool) *Fault {
	if len(t.RequestBodySchema) > 0 && Safe(t.RequestMethod()) {
		return fault("spec.requestBodySchema", "a %s request has no body: use spec.urlParamsSchema or another method", t.Method)
	}
	return nil
}

// Safe reports whether requests of a method change nothing (RFC 9110 9.2.1).
func Safe(method string) bool { return method == "GET" || method == "HEAD" || method == "OPTIONS" }

// checkNames requires that each argument has one place.
func checkNames(t *document.AITool) *Fault {
	seen := map[string]string{}
	for _, list := range []struct {
		path   string
		fields []schemafield.Field
	}{
		{"spec.urlParamsSchema", t.URLParamsSchema}, {"spec.requestBodySchema", t.RequestBodySchema},
		{"spec.authorization.customHeaders", t.Authorization.CustomHeaders},
	} {
		for i, f := range list.fields {
			if before, found := seen[f.Name]; found {
				return fault(fmt.Sprintf("%s[%d].name", list.path, i), "%q is also in %s: an argument has one place, so rename or remove one", f.Name, before)
			}
			seen[f.Name] = list.path
		}
	}
	return nil
}

// forbidden are the headers that a tool cannot set: those that the connection or Cardea itself sets. A name that ends
// with a dash stands for all that begin with it.
var forbidden = []string{
	"host", "content-", "transfer-encoding", "connection", "upgrade", "te", "trailer", "cookie", "proxy-", "forwarded", "x-forwarded-", "webhook-", "traceparent",
}

// Forbidden reports whether a tool cannot set a header.
func Forbidden(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc(forbidden, func(one string) bool {
		return header == one || strings.HasSuffix(one, "-") && strings.HasPrefix(header, one)
	})
}

func checkHeaders(t *document.AITool) *Fault {
	seen := map[string]bool{}
	check := func(path, name string) *Fault {
		lower := strings.ToLower(name)
		switch {
		case Forbidden(name):
			return fault(path, "the header %s cannot be set: remove it", name)
		case seen[lower]:
			return fault(path, "the header %s is set twice: remove one", name)
		case lower == "authorization" && t.Authorization.Token():
			return fault(path, "the header %s holds the token of spec.authorization: remove it, or authorizeAsUser and the template", name)
		case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }):
			return fault(path, "%q is no name of a header: use letters, digits and dashes", name)
		}
		seen[lower] = true
		return nil
	}
	for _, h := range t.Headers {
		if found := check("spec.headers["+h.Name+"]", h.Name); found != nil {
			return found
		}
	}
	for i, f := range t.Authorization.CustomHeaders {
		path := fmt.Sprintf("spec.authorization.customHeaders[%d]", i)
		if f.FieldType == "OBJECT" || f.FieldType == "ARRAY" {
			return fault(path, "a header is a text, a number or a truth value: change fieldType")
		}
		if found := check(path, f.Name); found != nil {
			return found
		}
	}
	return nil
}

// checkValues requires that the allowed values of fields have the type of the field.
func checkValues(t *document.AITool) *Fault {
	var response []schemafield.Field
	if t.Response != nil {
		response = t.Response.Schema
	}
	for _, list := range []struct {
		path   string
		fields []schemafield.Field
	}{
		{"spec.urlParamsSchema", t.URLParamsSchema}, {"spec.requestBodySchema", t.RequestBodySchema},
		{"spec.authorization.customHeaders", t.Authorization.CustomHeaders}, {"spec.response.schema", response},
	} {
		for i, f := range list.fields {
			if found := checkValuesOf(fmt.Sprintf("%s[%d]", list.path, i), f); found != nil {
				return found
			}
		}
	}
	return nil
}

func checkValuesOf(path string, f schemafield.Field) *Fault {
	for i, raw := range f.EnumValues {
		if !hasType(f.FieldType, raw) {
			return fault(fmt.Sprintf("%s.enumValues[%d]", path, i), "is no %s: write a value of the field's type", f.FieldType)
		}
	}
	if f.ItemsSchema != nil {
		if found := checkValuesOf(path+".itemsSchema", *f.ItemsSchema); found != nil {
			return found
		}
	}
	for i, child := range f.Properties {
		if found := checkValuesOf(fmt.Sprintf("%s.properties[%d]", path, i), child); found != nil {
			return found
		}
	}
	return nil
}

// fits reports whether every number of a JSON value fits.
func fits(value any) bool {
	switch v := value.(type) {
	case json.Number:
		return schemafield.Fits(v.String())
	case []any:
		return !slices.ContainsFunc(v, func(one any) bool { return !fits(one) })
	case map[string]any:
		for _, member := range v {
			if !fits(member) {
				return false
			}
		}
	}
	return true
}

// hasType reports whether a JSON value has the type of a field, and numbers that fit.
func hasType(fieldType string, raw json.RawMessage) bool {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || !fits(value) {
		return false
	}
	switch v := value.(type) {
	case string:
		return fieldType == "STRING"
	case bool:
		return fieldType == "BOOLEAN"
	case json.Number:
		return fieldType == "NUMBER" || fieldType == "INTEGER" && !strings.ContainsAny(v.String(), ".eE")
	case []any:
		return fieldType == "ARRAY"
	case map[string]any:
		return fieldType == "OBJECT"
	}
	return false
}

// checkAudience requires an absolute URL. Tokens whose audience is Cardea itself would be accepted by Cardea.
func checkAudience(t *document.AITool) *Fault {
	const path = "spec.authorization.audience"
	audience := t.Authorization.Audience
	if audience == "" {
		return nil
	}
	parsed, err := url.Parse(audience)
	switch {
	case !t.Authorization.Token():
		return fault(path, "no token is sent: set authorizeAsUser, or remove audience")
	case err != nil || !parsed.IsAbs() || parsed.Fragment != "" || parsed.Host == "" && parsed.Opaque == "":
		return fault(path, "is no absolute URL without a fragment: write https://host")
	case strings.EqualFold(parsed.Scheme, "cardea"):
		return fault(path, "audiences of scheme cardea are Cardea's own: write the URL of the API")
	}
	return nil
}

// OwnAudience reports whether an audience is a URL at a frontend host of the deployment: that of an agent or an app.
// Cardea would accept a token for it.
func OwnAudience(audience string, hosts []string) bool {
	parsed, err := url.Parse(audience)
	return audience != "" && err == nil && slices.Contains(hosts, parsed.Hostname())
}
