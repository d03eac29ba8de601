package scim

import "strings"

// document is a JSON object of discovery. encode sorts its members.
type document map[string]any

// ServiceProviderConfig returns what the server supports (RFC 7643, 5). base is the URL of the directory:
// https://acme.example.com/scim/v2/dir_1.
func ServiceProviderConfig(base string) []byte {
	no := document{"supported": false}
	return encode(document{
		"schemas":        []string{configSchema},
		"patch":          document{"supported": true},
		"bulk":           document{"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
		"filter":         document{"supported": true, "maxResults": MaxResults},
		"changePassword": no,
		"sort":           no,
		"etag":           document{"supported": true},
		"authenticationSchemes": []document{{
			"type": "oauthbearertoken", "name": "Bearer token", "description": "The token of the directory in the header Authorization.", "primary": true,
		}},
		"meta": document{"resourceType": "ServiceProviderConfig", "location": base + "/ServiceProviderConfig"},
	})
}

// Schemas returns a ListResponse of the schemas of users and groups.
func Schemas(base string) []byte {
	var all []document
	for _, s := range []*schema{userSchema, groupSchema, enterpriseSchema} {
		all = append(all, s.document(base))
	}
	return list(all)
}

// SchemaByID returns one schema, or false for an unknown id.
func SchemaByID(base, id string) ([]byte, bool) {
	for _, s := range []*schema{userSchema, groupSchema, enterpriseSchema} {
		if strings.EqualFold(s.id, id) {
			return encode(s.document(base)), true
		}
	}
	return nil, false
}

// ResourceTypes returns a ListResponse of the types User and Group.
func ResourceTypes(base string) []byte {
	return list([]document{resourceType(base, userSchema), resourceType(base, groupSchema)})
}

// ResourceTypeByID returns one resource type, or false for an unknown id.
func ResourceTypeByID(base, id string) ([]byte, bool) {
	for _, s := range []*schema{userSchema, groupSchema} {
		if strings.EqualFold(s.name, id) {
			return encode(resourceType(base, s)), true
		}
	}
	return nil, false
}

func list(all []document) []byte {
	return encode(document{
		"schemas": []string{listSchema}, "totalResults": len(all), "startIndex": 1, "itemsPerPage": len(all), "Resources": all,
	})
}

func resourceType(base string, s *schema) document {
	d := document{
		"schemas": []string{resourceTypeSchema}, "id": s.name, "name": s.name, "description": s.description,
		"endpoint": "/" + s.name + "s", "schema": s.id,
		"meta": document{"resourceType": "ResourceType", "location": base + "/ResourceTypes/" + s.name},
	}
	if s == userSchema {
		d["schemaExtensions"] = []document{{"schema": EnterpriseSchema, "required": false}}
	}
	return d
}

func (s *schema) document(base string) document {
	return document{
		"schemas": []string{schemaSchema}, "id": s.id, "name": s.name, "description": s.description,
		"attributes": documents(s.attributes),
		"meta":       document{"resourceType": "Schema", "location": base + "/Schemas/" + s.id},
	}
}

// documents describes attributes (RFC 7643, 7).
func documents(attributes []*attribute) []document {
	var all []document
	for _, a := range attributes {
		if a.common {
			continue
		}
		d := document{
			"name": a.name, "type": string(a.kind), "multiValued": a.multi, "description": a.description,
			"required": a.required, "caseExact": a.exact, "mutability": a.mutability(), "returned": a.returned(), "uniqueness": a.uniqueness(),
		}
		if len(a.types) > 0 {
			d["canonicalValues"] = a.types
		}
		if a.kind == referenceKind {
			d["referenceTypes"] = a.references()
		}
		if len(a.sub) > 0 {
			d["subAttributes"] = documents(a.sub)
		}
		all = append(all, d)
	}
	return all
}

func (a *attribute) references() []string {
	switch {
	case a.name != "$ref":
		return []string{"external"}
	case a.label == "groups.$ref":
		return []string{"Group"}
	default:
		return []string{"User"}
	}
}

func (a *attribute) mutability() string {
	switch {
	case a.readOnly, strings.HasPrefix(a.label, "groups."):
		return "readOnly"
	case a.discarded:
		return "writeOnly"
	case strings.HasPrefix(a.label, "members."):
		return "immutable"
	default:
		return "readWrite"
	}
}

func (a *attribute) returned() string {
	if a.discarded {
		return "never"
	}
	return "default"
}

func (a *attribute) uniqueness() string {
	if a.unique {
		return "server"
	}
	return "none"
}
