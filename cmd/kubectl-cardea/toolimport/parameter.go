package toolimport

import (
	"errors"
	"maps"
	"mime"
	"regexp"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/toolform"
)

// memberName is a name that the APIs of models accept for a member of a tool's arguments.
var memberName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

var headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,100}$`)

// Reserved reports whether a header may not be declared: the connection or Cardea sets it.
func Reserved(header string) bool {
	return toolform.Forbidden(header) || slices.Contains([]string{"accept", "user-agent", "cardea-call-id", "idempotency-key"}, strings.ToLower(header))
}

// arguments are the fields of a tool, by where they are sent.
type arguments struct {
	url, body, header []v1alpha1.SchemaField
}

// converter converts one operation.
type converter struct {
	*importer
	operation operation
	// left is how many schemas may still be read.
	left  int
	names map[string]bool
	out   arguments
}

// detail notes a detail of the operation that is left out.
func (c *converter) detail(err error) { c.note(c.operation.title(), err) }

// leaveOut notes that a part of the operation is left out, and why.
func (c *converter) leaveOut(err error) {
	c.detail(&fault{pointerOf(err), "left out: " + err.Error()})
}

// missing returns the error of a required part that cannot be expressed. A part that is not required is noted.
func (c *converter) missing(err error, required bool) error {
	if err == nil || required || errors.Is(err, errTooLarge) {
		return err
	}
	c.leaveOut(err)
	return nil
}

// parameters adds the parameters of the path item and of the operation, which replaces those of the item.
func (c *converter) parameters() error {
	var all []place
	replaced := map[[2]string]int{}
	for _, at := range []place{c.operation.item, c.operation.at} {
		for _, one := range at.member("parameters").items() {
			one, err := c.document.resolved(one)
			if err != nil {
				return err
			}
			key := [2]string{stringOf(objectOf(one.value)["in"]), stringOf(objectOf(one.value)["name"])}
			if i, has := replaced[key]; has {
				all[i] = one
				continue
			}
			replaced[key] = len(all)
			all = append(all, one)
		}
	}
	// The placeholders come first, because their names cannot be given to another parameter.
	slices.SortStableFunc(all, func(a, b place) int { return order(a) - order(b) })
	for _, one := range all {
		if err := c.missing(c.parameter(one), order(one) == 0 || isTrue(objectOf(one.value)["required"])); err != nil {
			return err
		}
	}
	for _, name := range toolform.Placeholders(c.operation.path) {
		if !c.names[name] {
			return c.operation.at.fault("the path's {%s} is no parameter", oneLine(name, maxQuoted))
		}
	}
	return nil
}

func order(p place) int {
	if objectOf(p.value)["in"] == "path" {
		return 0
	}
	return 1
}

// parameter adds a parameter, or returns why it cannot be expressed.
func (c *converter) parameter(p place) error {
	node := objectOf(p.value)
	name, in := stringOf(node["name"]), stringOf(node["in"])
	switch in {
	case "path":
		if !slices.Contains(toolform.Placeholders(c.operation.path), name) {
			c.leaveOut(p.fault("the path has no {%s}", oneLine(name, maxQuoted)))
			return nil
		}
	case "query":
	case "header":
		if skip, err := c.header(p, name); skip || err != nil {
			return err
		}
	case "cookie":
		return p.fault("a cookie cannot be sent")
	default:
		return p.fault("a parameter in %s cannot be sent", quoted(in))
	}
	if node["schema"] == nil {
		return p.fault("a parameter without a schema cannot be expressed")
	}
	if style := stringOf(node["style"]); style != "" && style != map[string]string{"path": "simple", "query": "form", "header": "simple"}[in] {
		return p.fault("the style %s cannot be expressed", quoted(style))
	}
	f, err := c.field(name, p.member("schema"), 1)
	if err != nil {
		return err
	}
	if f == nil {
		return p.fault("its schema is read-only")
	}
	list := f.FieldType == v1alpha1.FieldTypeArray
	switch {
	case f.FieldType == v1alpha1.FieldTypeObject, list && in != "query":
		return p.fault("a value of the type %s cannot be sent here", f.FieldType)
	case list && (f.ItemsSchema != nil && !f.ItemsSchema.scalar() || !(&field{FieldType: f.ItemsType}).scalar()):
		return p.fault("a list of lists or objects cannot be sent in a query")
	case list && node["explode"] == false:
		return p.fault("a list in one value (explode: false) cannot be expressed")
	}
	if described := lines(stringOf(node["description"]), maxFieldDescription); described != "" {
		f.Description = described
	}
	f.Required = in == "path" || isTrue(node["required"])
	return c.add(f, p, in)
}

// header reports whether a header is not a parameter of the tool, because it is sent anyway.
func (c *converter) header(p place, name string) (skip bool, err error) {
	switch {
	case slices.Contains([]string{"accept", "content-type", "authorization", "idempotency-key"}, strings.ToLower(name)):
		return true, nil // OpenAPI ignores the first three, and Cardea sends the last one
	case slices.ContainsFunc(c.opts.Headers, func(h Header) bool { return strings.EqualFold(h.Name, name) }):
		return true, nil
	case !headerName.MatchString(name) || Reserved(name):
		return false, p.fault("the header %s cannot be sent", quoted(name))
	}
	return false, nil
}

// add adds a field to those that are sent in a place. A name counts once over all places, and header names in any case.
func (c *converter) add(f *field, p place, in string) error {
	key := f.Name
	if in == "header" {
		key = "header " + strings.ToLower(f.Name)
	}
	switch {
	case !memberName.MatchString(f.Name):
		return p.fault("APIs of models refuse the name %s: they accept 1 to 64 letters, digits, dots, dashes and underscores", quoted(f.Name))
	case c.names[f.Name] || c.names[key]:
		return p.fault("another parameter has the name %s", quoted(f.Name))
	}
	declared, err := f.declared()
	if err != nil {
		return p.fault("it cannot be declared: %v", err)
	}
	to := map[string]*[]v1alpha1.SchemaField{"path": &c.out.url, "query": &c.out.url, "header": &c.out.header, "body": &c.out.body}[in]
	if most := map[string]int{"header": 50}[in]; len(*to) == maxMembers || most > 0 && len(*to) == most {
		return p.fault("the tool has too many parameters")
	}
	c.names[f.Name], c.names[key] = true, true
	*to = append(*to, declared)
	return nil
}

// body adds the members of the JSON body.
func (c *converter) body() error {
	at := c.operation.at.member("requestBody")
	if at.value == nil {
		return nil
	}
	if toolform.Safe(c.operation.method) {
		c.leaveOut(at.fault("requests with %s have no body", c.operation.method))
		return nil
	}
	at, err := c.document.resolved(at)
	if err != nil {
		return err
	}
	required := isTrue(objectOf(at.value)["required"])
	content := at.member("content")
	media := jsonOf(content)
	if media == "" {
		return c.missing(at.fault("the body cannot be sent: it is no application/json"), required)
	}
	schema := content.member(media).member("schema")
	if schema.value == nil {
		return c.missing(at.fault("a body without a schema cannot be expressed"), required)
	}
	return c.missing(c.members(schema), required)
}

// jsonOf returns the media type of a body that can be sent as JSON, "" if there is none.
func jsonOf(content place) string {
	for _, wanted := range []string{"application/json", "application/*", "*/*"} {
		for _, media := range slices.Sorted(maps.Keys(objectOf(content.value))) {
			if parsed, _, _ := mime.ParseMediaType(media); parsed == wanted { // with any parameters
				return media
			}
		}
	}
	return ""
}

// members adds the members of a body's object.
func (c *converter) members(schema place) error {
	s, err := c.merge(schema)
	if err != nil {
		return err
	}
	kind, err := s.fieldType(schema)
	if err != nil {
		return err
	}
	if kind != v1alpha1.FieldTypeObject {
		return schema.fault("a body of the type %s cannot be expressed: tools send an object", kind)
	}
	for _, name := range s.names() {
		f, err := c.field(name, s.properties[name], 1)
		if err == nil && f != nil {
			f.Required = s.required[name]
			err = c.add(f, s.properties[name], "body")
		}
		if err = c.missing(err, s.required[name]); err != nil {
			c.out.body = nil
			return c.because(schema, name, err)
		}
	}
	if len(c.out.body) == 0 {
		return schema.fault("the body has no member that can be expressed")
	}
	if s.open {
		c.detail(schema.fault("members of the body beyond properties are left out"))
	}
	return nil
}

// HeaderName reports whether a text is the name of a header.
func HeaderName(text string) bool { return headerName.MatchString(text) }
