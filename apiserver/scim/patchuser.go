package scim

import (
	"reflect"
	"slices"
	"strings"
)

// Apply returns the document after all operations in order, or an Error. Values named by a path without a filter are
// added or replaced; a path with a filter of equalities that selects no value adds one that fulfills it. Null
// removes. Attributes that are read-only are errors of type mutability as paths, and are ignored within values, as are
// unknown attributes. The work is bounded by the number of operations times the size of a document.
func (u User) Apply(p Patch) (User, error) {
	d := draft{doc: cloneMap(u.doc)}
	if d.doc == nil {
		d.doc = map[string]any{}
	}
	for i, o := range p.operations {
		err := d.apply(o)
		if err == nil {
			err = d.bound(i)
		}
		if err != nil {
			return User{}, at(i, err)
		}
	}
	if d.doc["userName"] == nil {
		return User{}, refuse(InvalidValue, "userName: is required")
	}
	return User{d.doc}, nil
}

// draft is a document while operations are applied.
type draft struct {
	doc   map[string]any
	paths paths
	// written is about how many bytes were written since the size was last checked.
	written int
}

// bound refuses documents that become far larger than what is stored. It encodes the document only now and then.
func (d *draft) bound(index int) error {
	if d.written <= MaxUserBytes && index%100 != 99 {
		return nil
	}
	d.written = 0
	if size := len(encode(d.doc)); size > 4*MaxUserBytes {
		return refuse(InvalidValue, "the user has %d bytes; at most %d are stored", size, MaxUserBytes)
	}
	return nil
}

func (d *draft) apply(o operation) error {
	t, err := o.path.resolve(userSchema)
	switch {
	case err != nil:
		return err
	case t.ignored:
		return nil
	case t.attribute == nil:
		return d.assignAll(t.extension, o.kind, o.value)
	}
	return d.assign(t, o.kind, o.value, o.hasValue)
}

// assignAll assigns the members of a resource or of the extension. Their names may be paths: name.givenName.
func (d *draft) assignAll(extension bool, kind operationKind, value any) error {
	if extension && (kind == removeOperation || value == nil) {
		if kind != addOperation {
			delete(d.doc, EnterpriseSchema)
		}
		return nil
	}
	o, ok := value.(object)
	if !ok {
		return refuse(InvalidValue, "value: must be an object where the operation has no path")
	}
	for _, m := range o {
		p, err := d.paths.key(m.name)
		if err != nil {
			return err
		}
		if p.given == "" {
			continue
		}
		if extension && p.schema == "" {
			p.schema = EnterpriseSchema
		}
		t, err := p.resolve(userSchema)
		switch {
		case err != nil || t.ignored:
			continue
		case t.attribute == nil:
			if extension {
				continue
			}
			err = d.assignAll(t.extension, kind, m.value)
		default:
			err = d.assign(t, kind, m.value, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assign changes one attribute.
func (d *draft) assign(t target, kind operationKind, value any, hasValue bool) error {
	if value == nil && kind == addOperation {
		return nil
	}
	if value == nil {
		kind, hasValue = removeOperation, false
	}
	if kind != removeOperation {
		d.written += weigh(value)
	}
	container := d.doc
	if t.extension {
		container, _ = d.doc[EnterpriseSchema].(map[string]any)
		if container == nil {
			container = map[string]any{}
		}
	}
	var err error
	switch {
	case t.attribute.multi:
		err = d.assignList(container, t, kind, value, hasValue)
	case t.attribute.kind == complexKind:
		err = assignComplex(container, t, kind, value)
	default:
		err = assignSimple(container, t.attribute, kind, value)
	}
	if t.extension {
		d.doc[EnterpriseSchema] = container
		if len(container) == 0 {
			delete(d.doc, EnterpriseSchema)
		}
	}
	return err
}

func assignSimple(container map[string]any, a *attribute, kind operationKind, value any) error {
	if kind == removeOperation {
		if a.required {
			return refuse(Mutability, "%s: is required and cannot be removed", a.label)
		}
		delete(container, a.name)
		return nil
	}
	v, err := a.read(value)
	if err != nil {
		return err
	}
	put(container, a.name, v)
	return nil
}

// assignComplex merges an object into a complex attribute (RFC 7644, 3.5.2.3). A string replaces the whole: the manager
// of Entra.
func assignComplex(container map[string]any, t target, kind operationKind, value any) error {
	if kind == removeOperation && t.sub == nil {
		delete(container, t.attribute.name)
		return nil
	}
	entry, _ := container[t.attribute.name].(map[string]any)
	if entry == nil {
		entry = map[string]any{}
	}
	o, merges := value.(object)
	var err error
	switch {
	case t.sub != nil:
		err = assignSimple(entry, t.sub, kind, value)
	case merges:
		err = t.attribute.merge(entry, o)
	default:
		entry, err = t.attribute.readEntry(value)
	}
	if err != nil {
		return err
	}
	container[t.attribute.name] = entry
	if len(entry) == 0 {
		delete(container, t.attribute.name)
	}
	return nil
}

// assignList changes the values of a multi-valued attribute. Of the values that an operation makes primary there may be
// one, and the others lose it (RFC 7644, 3.5.2).
func (d *draft) assignList(container map[string]any, t target, kind operationKind, value any, hasValue bool) error {
	list, _ := container[t.attribute.name].([]any)
	var changed []int
	var err error
	switch {
	case kind == removeOperation:
		list, err = removeValues(list, t, value, hasValue)
	case t.sub != nil:
		list, changed, err = setSub(list, t, value)
		d.written += weigh(value) * len(changed)
	case t.selects != nil:
		list, changed, err = setSelected(list, t, value)
		d.written += weigh(value) * len(changed)
	case kind == addOperation:
		list, changed, err = addValues(list, t.attribute, value)
	default:
		list, err = t.attribute.readList(value)
	}
	if err == nil {
		err = onePrimary(list, changed, t.attribute)
	}
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(e any) bool { return len(asEntry(e)) == 0 })
	if len(list) > maxValues {
		return refuse(InvalidValue, "%s: has more than %d values", t.attribute.label, maxValues)
	}
	container[t.attribute.name] = list
	if len(list) == 0 {
		delete(container, t.attribute.name)
	}
	return nil
}

func asEntry(value any) map[string]any {
	entry, _ := value.(map[string]any)
	return entry
}

// onePrimary keeps at most one value primary: the one that was changed.
func onePrimary(list []any, changed []int, a *attribute) error {
	primary := -1
	for _, i := range changed {
		if asEntry(list[i])["primary"] != true {
			continue
		}
		if primary >= 0 {
			return a.primaries()
		}
		primary = i
	}
	for i, e := range list {
		if primary >= 0 && i != primary && asEntry(e)["primary"] == true {
			asEntry(e)["primary"] = false
		}
	}
	return nil
}

// selected returns the positions of the values that a target selects.
func selected(list []any, t target) []int {
	var found []int
	for i, e := range list {
		if t.selects == nil || t.selects.matches(entrySubject(asEntry(e))) {
			found = append(found, i)
		}
	}
	return found
}

// create appends the value that a filter describes.
func create(list []any, t target) ([]any, []int, error) {
	if t.selects != nil && t.template == nil {
		return nil, nil, refuse(NoTarget, "path: no value of %s matches the filter", t.attribute.label)
	}
	entry := cloneMap(t.template)
	if entry == nil {
		entry = map[string]any{}
	}
	return append(list, entry), []int{len(list)}, nil
}

// setSub sets a sub-attribute of the selected values: emails[type eq "work"].value.
func setSub(list []any, t target, value any) ([]any, []int, error) {
	v, err := t.sub.read(value)
	if err != nil {
		return nil, nil, err
	}
	found := selected(list, t)
	if len(found) == 0 {
		if list, found, err = create(list, t); err != nil {
			return nil, nil, err
		}
	}
	for _, i := range found {
		put(asEntry(list[i]), t.sub.name, v)
	}
	return list, found, nil
}

// setSelected merges an object into the selected values, as into a complex attribute: what it does not name stays.
func setSelected(list []any, t target, value any) ([]any, []int, error) {
	if given, ok := value.([]any); ok && len(given) == 1 {
		value = given[0]
	}
	o, err := t.attribute.entryObject(value)
	if err != nil {
		return nil, nil, err
	}
	found := selected(list, t)
	if len(found) == 0 {
		if list, found, err = create(list, t); err != nil {
			return nil, nil, err
		}
	}
	for _, i := range found {
		if err := t.attribute.merge(asEntry(list[i]), o); err != nil {
			return nil, nil, err
		}
	}
	return list, found, nil
}

// addValues appends the values that do not exist. One with the value and the type of an existing one changes that one.
func addValues(list []any, a *attribute, value any) ([]any, []int, error) {
	given, err := a.readList(value)
	if err != nil {
		return nil, nil, err
	}
	var changed []int
	for _, e := range given {
		entry := asEntry(e)
		i := slices.IndexFunc(list, func(other any) bool { return sameValue(asEntry(other), entry) })
		if i < 0 {
			i = len(list)
			list = append(list, map[string]any{})
		}
		for name, v := range entry {
			asEntry(list[i])[name] = v
		}
		changed = append(changed, i)
	}
	return list, changed, nil
}

// sameValue reports whether two values are one: the same value and type, or the same whole if they have no value.
func sameValue(a, b map[string]any) bool {
	if a["value"] == nil {
		return reflect.DeepEqual(a, b)
	}
	return a["value"] == b["value"] && a["type"] == b["type"]
}

// removeValues removes the selected values, or a sub-attribute of them. Without a filter it removes those that the
// operation has as its value, which Entra sends, and without a value all.
func removeValues(list []any, t target, value any, hasValue bool) ([]any, error) {
	if t.sub != nil {
		for _, i := range selected(list, t) {
			delete(asEntry(list[i]), t.sub.name)
		}
		return list, nil
	}
	if t.selects != nil || !hasValue {
		return slices.DeleteFunc(list, func(e any) bool {
			return t.selects == nil || t.selects.matches(entrySubject(asEntry(e)))
		}), nil
	}
	given, err := t.attribute.readList(value)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(e any) bool {
		return slices.ContainsFunc(given, func(g any) bool { return describes(asEntry(g), asEntry(e)) })
	}), nil
}

// describes reports whether a value to remove means an existing one: all its sub-attributes are equal. If it has the
// sub-attribute value, only value and type count.
func describes(given, entry map[string]any) bool {
	for name, v := range given {
		if given["value"] != nil && name != "value" && name != "type" {
			continue
		}
		s, _ := v.(string)
		other, _ := entry[name].(string)
		if v != entry[name] && (s == "" || !strings.EqualFold(s, other)) {
			return false
		}
	}
	return true
}
