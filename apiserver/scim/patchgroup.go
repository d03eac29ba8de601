package scim

import (
	"strings"

	filter "github.com/scim2/filter-parser/v2"
)

// Apply returns the group after all operations in order, and their combined change of its members, or an Error. remove
// of members without a filter and without a value removes all.
func (g Group) Apply(p Patch) (Group, MemberChange, error) {
	d := groupDraft{doc: g.document()}
	for i, o := range p.operations {
		if err := d.apply(o); err != nil {
			return Group{}, MemberChange{}, at(i, err)
		}
	}
	return groupOf(d.doc), d.members.change(), nil
}

type groupDraft struct {
	doc     map[string]any
	members fold
	paths   paths
}

func (d *groupDraft) apply(o operation) error {
	if o.path.whole {
		if o.path.schema == EnterpriseSchema || o.path.schema == UserSchema {
			return nil
		}
		return d.assignAll(o.kind, o.value)
	}
	if o.path.expression != nil && d.isMembers(o.path) {
		return d.assignSelected(o)
	}
	t, err := o.path.resolve(groupSchema)
	if err != nil || t.ignored {
		return err
	}
	return d.assign(t, o.kind, o.value, o.hasValue)
}

func (d *groupDraft) isMembers(p path) bool {
	return strings.EqualFold(p.name, "members") && (p.schema == "" || strings.EqualFold(p.schema, GroupSchema))
}

// assignAll assigns the members of an object without a path. Attributes that it does not name stay.
func (d *groupDraft) assignAll(kind operationKind, value any) error {
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
		if p.whole {
			if nestedObject, ok := m.value.(object); ok && p.schema == GroupSchema {
				err = d.assignAll(kind, nestedObject)
			}
		} else if t, unresolved := p.resolve(groupSchema); unresolved == nil && !t.ignored {
			err = d.assign(t, kind, m.value, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *groupDraft) assign(t target, kind operationKind, value any, hasValue bool) error {
	if value == nil && kind == addOperation {
		return nil
	}
	if value == nil {
		kind, hasValue = removeOperation, false
	}
	if t.attribute.name != "members" {
		return assignSimple(d.doc, t.attribute, kind, value)
	}
	if t.sub != nil || t.selects != nil {
		return refuse(Mutability, "path: the attributes of members are read-only; add and remove members")
	}
	ids, err := readMembers(value)
	switch {
	case err != nil:
		return err
	case kind == addOperation:
		d.members.plus(ids)
	case kind == replaceOperation || !hasValue:
		d.members.set(ids)
	default:
		d.members.minus(ids)
	}
	return nil
}

// assignSelected removes the members that a filter names by their ids: members[value eq "7"].
func (d *groupDraft) assignSelected(o operation) error {
	if o.kind != removeOperation || o.path.sub != "" {
		return refuse(Mutability, "path: the attributes of members are read-only; add and remove members")
	}
	ids, err := selectedIDs(o.path.expression, nil)
	if err != nil {
		return err
	}
	d.members.minus(ids)
	return nil
}

// selectedIDs returns the ids of a filter that consists of equalities of value, combined by or.
func selectedIDs(expression filter.Expression, ids []int64) ([]int64, error) {
	switch e := expression.(type) {
	case *filter.LogicalExpression:
		if e.Operator != filter.OR {
			break
		}
		ids, err := selectedIDs(e.Left, ids)
		if err != nil {
			return nil, err
		}
		return selectedIDs(e.Right, ids)
	case *filter.AttributeExpression:
		sub, s := e.AttributePath, ""
		if value, ok := e.CompareValue.(string); ok {
			s = value
		}
		if e.Operator == filter.EQ && sub.URIPrefix == nil && sub.SubAttribute == nil && strings.EqualFold(sub.AttributeName, "value") {
			id, err := memberID(s)
			return append(ids, id), err
		}
	}
	return nil, refuse(InvalidFilter, `path: members are selected by value: members[value eq "7"]`)
}
