package toolimport

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// methods are the methods that tools have, in the order of the output.
func methods() []string {
	return []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
	}
}

// operation is an operation of the document.
type operation struct {
	method, path string
	// name is the name of its tool, unique in the document.
	name string
	// item is the place of its path item, and at its own.
	item, at place
}

// title returns the method and the path.
func (o operation) title() string { return o.method + " " + o.path }

// operations returns the operations of the document by path and method. Their names are the same whatever of the
// document becomes tools.
func (c *importer) operations() []operation {
	var all []operation
	paths := place{value: c.document.root["paths"], pointer: "#/paths"}
	for _, path := range slices.Sorted(maps.Keys(objectOf(paths.value))) {
		if !strings.HasPrefix(path, "/") {
			continue // an extension
		}
		item, err := c.document.resolved(paths.member(path))
		if err != nil {
			c.note("", err)
			continue
		}
		for _, method := range methods() {
			if at := item.member(strings.ToLower(method)); objectOf(at.value) != nil {
				all = append(all, operation{method: method, path: path, item: item, at: at})
			}
		}
		for _, other := range []string{"trace", "query"} {
			if at := item.member(other); at.value != nil {
				c.note("", at.fault("the operation is left out: no tool has its method"))
			}
		}
	}
	taken := map[string]bool{}
	for i := range all {
		all[i].name = unique(c.opts.Prefix+named(all[i]), taken)
	}
	return all
}

const (
	// maxResource bounds the names of tools. They fit into the names that models accept, with a number after them.
	maxResource = 56
	// MaxPrefix bounds the prefix of names, in characters.
	MaxPrefix = 24
)

// named returns the name of an operation's tool from its id, or from its method and path, as Kubernetes names
// resources.
func named(o operation) string {
	if name := kebab(stringOf(objectOf(o.at.value)["operationId"])); name != "" {
		return name
	}
	return kebab(strings.ToLower(o.method) + " " + o.path)
}

// kebab returns the words of a name in lower case with dashes: list-orders of listOrders, get-api-key of GetAPIKey.
func kebab(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			b.WriteByte(' ')
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1]) ||
			unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Join(strings.Fields(b.String()), "-")
}

// unique returns a name, with a number if it is taken.
func unique(name string, taken map[string]bool) string {
	name = strings.Trim(name[:min(len(name), maxResource)], "-")
	out := name
	for n := 2; taken[out] || out == ""; n++ {
		out = strings.TrimPrefix(name+"-"+strconv.Itoa(n), "-")
	}
	taken[out] = true
	return out
}

// Pattern selects operations.
type Pattern struct {
	method string
	path   *regexp.Regexp
}

var patternForm = regexp.MustCompile(`^(?:([A-Z]+|\*) +)?(/\S*|\*)$`)

// ParsePattern reads a pattern such as `GET /orders*`: a method or * (absent: every method), and a path in which *
// stands for any characters.
func ParsePattern(text string) (Pattern, error) {
	parts := patternForm.FindStringSubmatch(text)
	if parts == nil {
		return Pattern{}, fmt.Errorf("%q is not of the form 'GET /orders*': a method or *, and a path in which * stands for any characters", text)
	}
	path, err := regexp.Compile("^" + strings.ReplaceAll(regexp.QuoteMeta(parts[2]), `\*`, ".*") + "$")
	return Pattern{parts[1], path}, err
}

// matches reports whether a pattern selects an operation.
func (p Pattern) matches(o operation) bool {
	return (p.method == "" || p.method == "*" || p.method == o.method) && p.path.MatchString(o.path)
}

// baseOf returns the URL of the first server of a place, with the default values of its variables; "" if it names none.
func baseOf(p place) (string, error) {
	servers := p.member("servers").items()
	if len(servers) == 0 {
		return "", nil
	}
	server := objectOf(servers[0].value)
	address := stringOf(server["url"])
	for name, variable := range objectOf(server["variables"]) {
		address = strings.ReplaceAll(address, "{"+name+"}", stringOf(objectOf(variable)["default"]))
	}
	if err := CheckBase(address); err != nil {
		return "", servers[0].member("url").fault("%v", err)
	}
	return address, nil
}

// CheckBase checks the URL before the paths of operations.
func CheckBase(address string) error {
	parsed, err := url.Parse(address)
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" || strings.ContainsAny(address, "{}"):
		return fmt.Errorf("%s is no absolute http or https URL: name the API's address with --base-url", quoted(address))
	case parsed.User != nil || strings.ContainsAny(address, "?#"):
		return fmt.Errorf("the URL must have no user, query and fragment: name the API's address with --base-url")
	}
	return nil
}

// origin returns the scheme and the host of a URL.
func origin(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(parsed.Scheme + "://" + parsed.Host)
}
