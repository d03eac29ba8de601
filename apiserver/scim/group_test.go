package scim

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestReadGroup(t *testing.T) {
	for name, tc := range map[string]struct {
		body   string
		group  Group
		change MemberChange
	}{
		"no members":   {`{"displayName":"G"}`, Group{DisplayName: "G"}, MemberChange{Replace: true}},
		"null members": {`{"displayName":"G","members":null}`, Group{DisplayName: "G"}, MemberChange{Replace: true}},
		"members in any order, twice": {
			`{"DISPLAYNAME":"G","externalId":"e","Members":[{"value":"9"},{"VALUE":"2","type":"User","$ref":"https://x/Users/2"},{"value":"9"}]}`,
			Group{"G", "e"}, MemberChange{Replace: true, Add: []int64{2, 9}},
		},
		"one member":               {`{"displayName":"G","members":{"value":"9"}}`, Group{DisplayName: "G"}, MemberChange{Replace: true, Add: []int64{9}}},
		"a bare member":            {`{"displayName":"G","members":["9"]}`, Group{DisplayName: "G"}, MemberChange{Replace: true, Add: []int64{9}}},
		"unknown attributes":       {`{"displayName":"G","id":"7","meta":1,"x":{}}`, Group{DisplayName: "G"}, MemberChange{Replace: true}},
		"a reference that is null": {`{"displayName":"G","members":[{"$ref":null,"value":"1"}]}`, Group{DisplayName: "G"}, MemberChange{Replace: true, Add: []int64{1}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, change, err := ReadGroup([]byte(tc.body))
			if err != nil || g != tc.group || !reflect.DeepEqual(change, tc.change) {
				t.Errorf("%+v %+v %v, want %+v %+v", g, change, err, tc.group, tc.change)
			}
		})
	}
}

func TestReadGroupRefuses(t *testing.T) {
	member := func(m string) string { return `{"displayName":"G","members":[` + m + `]}` }
	for name, tc := range map[string]struct{ body, want string }{
		"no JSON":              {`x`, InvalidSyntax},
		"no displayName":       {`{"members":[]}`, InvalidValue},
		"an empty displayName": {`{"displayName":""}`, InvalidValue},
		"a long displayName":   {`{"displayName":"` + strings.Repeat("x", MaxNameBytes+1) + `"}`, InvalidValue},
		"a control character":  {`{"displayName":"\u0007"}`, InvalidValue},
		"NUL in another value": {`{"displayName":"G","x":"\u0000"}`, InvalidValue},
		"a nested group":       {member(`{"value":"1","type":"group"}`), InvalidValue},
		"a nested reference":   {member(`{"value":"1","$ref":"https://x/scim/v2/d/Groups/1"}`), InvalidValue},
		"no value":             {member(`{}`), InvalidValue},
		"a number":             {member(`{"value":1}`), InvalidValue},
		"a word":               {member(`{"value":"bo"}`), InvalidValue},
		"zero":                 {member(`{"value":"0"}`), InvalidValue},
		"a negative id":        {member(`{"value":"-1"}`), InvalidValue},
		"a sign":               {member(`{"value":"+1"}`), InvalidValue},
		"a leading zero":       {member(`{"value":"01"}`), InvalidValue},
		"over 63 bits":         {member(`{"value":"9223372036854775808"}`), InvalidValue},
		"null":                 {member(`null`), InvalidValue},
		"members as a number":  {`{"displayName":"G","members":5}`, InvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ReadGroup([]byte(tc.body))
			fails(t, err, tc.want)
		})
	}
}

func TestPatchOfGroup(t *testing.T) {
	same := Group{"G", "e"}
	for name, tc := range map[string]struct {
		operations string
		group      Group
		change     MemberChange
	}{
		"Okta renames":           {`{"op":"replace","value":{"id":"3","displayName":"H"}}`, Group{"H", "e"}, MemberChange{}},
		"Okta adds":              {`{"op":"add","path":"members","value":[{"value":"2","display":"x"},{"value":"1"}]}`, same, MemberChange{Add: []int64{1, 2}}},
		"Okta removes":           {`{"op":"remove","path":"members[value eq \"7\"]"}`, same, MemberChange{Remove: []int64{7}}},
		"Okta replaces":          {`{"op":"replace","path":"members","value":[{"value":"2"}]}`, same, MemberChange{Replace: true, Add: []int64{2}}},
		"Entra adds":             {`{"op":"Add","path":"members","value":[{"$ref":null,"value":"2"}]}`, same, MemberChange{Add: []int64{2}}},
		"Entra removes":          {`{"op":"Remove","path":"members","value":[{"$ref":null,"value":"2"}]}`, same, MemberChange{Remove: []int64{2}}},
		"Entra renames":          {`{"op":"Replace","path":"displayName","value":"H"}`, Group{"H", "e"}, MemberChange{}},
		"remove of all":          {`{"op":"remove","path":"members"}`, same, MemberChange{Replace: true}},
		"remove of no values":    {`{"op":"remove","path":"members","value":[]}`, same, MemberChange{}},
		"replace by nothing":     {`{"op":"replace","path":"members","value":[]}`, same, MemberChange{Replace: true}},
		"two in a filter":        {`{"op":"remove","path":"members[value eq \"7\" or Value eq \"8\"]"}`, same, MemberChange{Remove: []int64{7, 8}}},
		"the schema in the path": {`{"op":"add","path":"` + GroupSchema + `:members","value":{"value":"2"}}`, same, MemberChange{Add: []int64{2}}},
		"members without a path": {`{"op":"add","value":{"members":[{"value":"2"}],"x":1}}`, same, MemberChange{Add: []int64{2}}},
		"replace without a path": {`{"op":"replace","value":{"members":[{"value":"2"}]}}`, same, MemberChange{Replace: true, Add: []int64{2}}},
		"the schema as a key":    {`{"op":"replace","value":{"` + GroupSchema + `":{"displayName":"H"}}}`, Group{"H", "e"}, MemberChange{}},
		"externalId removed":     {`{"op":"remove","path":"externalId"}`, Group{DisplayName: "G"}, MemberChange{}},
		"externalId replaced":    {`{"op":"replace","path":"EXTERNALID","value":"f"}`, Group{"G", "f"}, MemberChange{}},
		"add of null":            {`{"op":"add","path":"members","value":null}`, same, MemberChange{}},
		"another schema":         {`{"op":"add","path":"urn:example:Group:x","value":1}`, same, MemberChange{}},
		"removed and added": {
			`{"op":"remove","path":"members[value eq \"1\"]"},{"op":"add","path":"members","value":[{"value":"1"}]}`, same, MemberChange{Add: []int64{1}},
		},
		"added and removed": {
			`{"op":"add","path":"members","value":[{"value":"1"}]},{"op":"remove","path":"members[value eq \"1\"]"}`, same, MemberChange{Remove: []int64{1}},
		},
		"replaced and removed": {
			`{"op":"replace","path":"members","value":[{"value":"1"},{"value":"2"}]},{"op":"remove","path":"members","value":[{"value":"1"}]}`, same,
			MemberChange{Replace: true, Add: []int64{2}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ReadPatch(patchBody(tc.operations))
			if err != nil {
				t.Fatal(err)
			}
			g, change, err := same.Apply(p)
			if err != nil || g != tc.group || !reflect.DeepEqual(change, tc.change) {
				t.Errorf("%+v %+v %v, want %+v %+v", g, change, err, tc.group, tc.change)
			}
		})
	}
}

func TestPatchOfGroupRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ operations, want string }{
		"remove of displayName":    {`{"op":"remove","path":"displayName"}`, Mutability},
		"an unknown member":        {`{"op":"add","path":"members","value":[{"value":"x"}]}`, InvalidValue},
		"an unknown member, path":  {`{"op":"remove","path":"members[value eq \"x\"]"}`, InvalidValue},
		"a nested group":           {`{"op":"add","path":"members","value":[{"value":"1","type":"Group"}]}`, InvalidValue},
		"another filter":           {`{"op":"remove","path":"members[display eq \"x\"]"}`, InvalidFilter},
		"a conjunction":            {`{"op":"remove","path":"members[value eq \"1\" and value eq \"2\"]"}`, InvalidFilter},
		"another operator":         {`{"op":"remove","path":"members[value ne \"1\"]"}`, InvalidFilter},
		"a part of members":        {`{"op":"replace","path":"members.value","value":"1"}`, Mutability},
		"a selected member":        {`{"op":"replace","path":"members[value eq \"1\"]","value":{"value":"2"}}`, Mutability},
		"a part of a selected one": {`{"op":"remove","path":"members[value eq \"1\"].display"}`, Mutability},
		"id":                       {`{"op":"replace","path":"id","value":"7"}`, Mutability},
		"an unknown attribute":     {`{"op":"replace","path":"owner","value":"7"}`, InvalidPath},
		"a filter of displayName":  {`{"op":"replace","path":"displayName[value eq \"1\"]","value":"7"}`, InvalidPath},
		"no path":                  {`{"op":"remove"}`, NoTarget},
		"no object":                {`{"op":"add","value":[1]}`, InvalidValue},
		"the second of two":        {`{"op":"replace","path":"displayName","value":"H"},{"op":"replace","path":"displayName","value":7}`, InvalidValue},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ReadPatch(patchBody(tc.operations))
			if err == nil {
				_, _, err = Group{DisplayName: "G"}.Apply(p)
			}
			fails(t, err, tc.want)
		})
	}
}

// A copy of the members for each operation, or for each member, would take a hundred times the memory.
func TestMemberChangeOfManyMembersIsLinear(t *testing.T) {
	const members = 10_000
	var ids []string
	for i := range members {
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprint(i+1)))
	}
	all := `{"op":"add","path":"members","value":[` + strings.Join(ids, ",") + `]}`
	for further, want := range map[string]int{`,{"op":"remove","path":"members"}`: 0, `,{"op":"add","path":"members","value":[{"value":"7"}]}`: members} {
		p, err := ReadPatch(patchBody(all + strings.Repeat(further, 5000)))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, change, err := Group{DisplayName: "G"}.Apply(p)
		runtime.ReadMemStats(&after)
		if err != nil || change.Replace != (want == 0) || len(change.Add) != want || !slices.IsSorted(change.Add) {
			t.Errorf("%s: %d members, %t, %v", further, len(change.Add), change.Replace, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
			t.Errorf("%s: %d MiB were allocated", further, used>>20)
		}
	}
}
