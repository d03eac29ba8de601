package toolimport

import (
	"maps"
	"slices"
	"strings"
)

// needs notes the credentials that an operation requires and no option sends. A requirement has alternatives.
func (c *importer) needs(o operation) {
	security := o.at.member("security")
	if security.value == nil {
		security = place{value: c.document.root["security"], pointer: "#/security"}
	}
	schemes := map[string]bool{}
	for _, alternative := range security.items() {
		lacking := false
		for name := range objectOf(alternative.value) {
			if !c.sends(name) {
				schemes[name], lacking = true, true
			}
		}
		if !lacking {
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		at := c.scheme(name)
		switch header := headerOf(at); {
		case header == "":
			c.note("", at.fault("the operations need a credential that a tool cannot send"))
		case strings.EqualFold(header, "Authorization"):
			c.note("", at.fault("the operations need a credential: --header Authorization=SECRET/KEY sends one, and --as-user a token of the user"))
		default:
			c.note("", at.fault("the operations need a credential: --header %s=SECRET/KEY sends one", oneLine(header, maxQuoted)))
		}
	}
}

func (c *importer) scheme(name string) place {
	at := place{value: c.document.root, pointer: "#"}.member("components").member("securitySchemes").member(name)
	found, err := c.document.resolved(at)
	if err != nil {
		return at
	}
	return found
}

// headerOf returns the header with a scheme's credential, "" if it is sent elsewhere.
func headerOf(scheme place) string {
	node := objectOf(scheme.value)
	switch node["type"] {
	case "http", "oauth2", "openIdConnect":
		return "Authorization"
	case "apiKey":
		if node["in"] == "header" {
			return stringOf(node["name"])
		}
	}
	return ""
}

// sends reports whether the options send the credential of a scheme.
func (c *importer) sends(name string) bool {
	header := headerOf(c.scheme(name))
	if c.opts.AsUser && strings.EqualFold(header, "Authorization") {
		return true
	}
	return slices.ContainsFunc(c.opts.Headers, func(h Header) bool { return strings.EqualFold(h.Name, header) })
}
