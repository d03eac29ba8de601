package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/test/testkit"
)

const largestCRD = 200 << 10 // bytes; applying a CRD near the limits of etcd and kubectl fails with misleading errors

// definitions reads the generated CRDs by kind.
func definitions() map[string]*apiextensionsv1.JSONSchemaProps {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(testkit.Root(), "config", "crd", "bases", "*.yaml"))
	Expect(err).NotTo(HaveOccurred())
	found := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(raw)).To(BeNumerically("<", largestCRD), path)
		var crd apiextensionsv1.CustomResourceDefinition
		Expect(yaml.Unmarshal(raw, &crd)).To(Succeed())
		Expect(crd.Spec.Versions).To(HaveLen(1))
		found[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return found
}

// eachProperty visits every property below a schema, including those of list elements and map values.
func eachProperty(path string, schema *apiextensionsv1.JSONSchemaProps, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	for name := range schema.Properties {
		property := schema.Properties[name]
		visit(path+"."+name, &property)
		eachProperty(path+"."+name, &property, visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		eachProperty(path+"[]", schema.Items.Schema, visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		eachProperty(path+"{}", schema.AdditionalProperties.Schema, visit)
	}
}

var _ = Describe("The CRDs", func() {
	It("are those of our kinds, each under 200 KiB also as the API server holds it", func(ctx context.Context) {
		Expect(definitions()).To(HaveLen(len(kinds)))
		out, err := cluster.Kubectl(ctx, "", "get", "crd", "-o", "jsonpath={range .items[*]}{@}{\"\\n\"}{end}")
		Expect(err).NotTo(HaveOccurred(), out)
		for line := range strings.Lines(out) {
			Expect(len(line)).To(BeNumerically("<", largestCRD))
		}
	})

	It("have a sentence for every field, which kubectl explain shows", func(ctx context.Context) {
		for kind, schema := range definitions() {
			Expect(schema.Description).To(MatchRegexp(`\w+ .*\.`), kind)
			fields := 0
			eachProperty(kind, schema, func(path string, property *apiextensionsv1.JSONSchemaProps) {
				fields++
				if path != kind+".metadata" { // Kubernetes documents it
					Expect(property.Description).To(MatchRegexp(`(?s)\w+ .*\.`), path)
				}
			})
			out, err := cluster.Kubectl(ctx, "", "explain", "--recursive=false", strings.ToLower(kind)+".spec")
			Expect(err).NotTo(HaveOccurred(), out)
			Expect(out).NotTo(ContainSubstring("<no description>"))
			Expect(fields).To(BeNumerically(">", 10))
		}
	})

	It("have no default in spec: GitOps tools would see drift", func() {
		for kind, schema := range definitions() {
			spec := schema.Properties["spec"]
			Expect(spec.Default).To(BeNil())
			eachProperty(kind+".spec", &spec, func(path string, property *apiextensionsv1.JSONSchemaProps) {
				Expect(property.Default).To(BeNil(), path)
			})
		}
	})
})

// tryScheme reports whether the API server accepts a scheme with these members of spec.
func tryScheme(ctx context.Context, members map[string]any) (bool, error) {
	obj := declare(v1alpha1.KindRateLimitScheme, "default", "tried", `{}`)
	for name, value := range members {
		if err := unstructured.SetNestedField(obj.Object, value, "spec", name); err != nil {
			return false, err
		}
	}
	err := cluster.Client.Create(ctx, obj, client.DryRunAll)
	return err == nil, err
}

var _ = Describe("YAML and HTTP agree", func() {
	It("on endpoints", func(ctx context.Context) {
		for _, endpoint := range []string{
			"*", "/", "/*", "/v1/things", "/v1/*", "/v1/things/", "POST /v1/*", "GET *", "HEAD /", "TRACE /x", "CONNECT /x", "/a%2Fb", "/v1/read:users", "/a+b", "/~u/!$&'()",
			"", "v1", "/v1*", "/v1/*/x", "**", "/**", "//", "/a//b", "/*/", "post /v1", "FETCH /v1", "POST  /v1", "POST", "POST ", " /v1", "/v1 ", "/a b", "/a?b", "/a#b", "/ä",
			"/a\n", "\n/a", "/a\t", "POST/v1", "POST\t/v1", "* ", "/\x7f", "/\u200b", "/" + letters(255), "/" + letters(256), "GET /" + letters(251), "GET /" + letters(252), "/" + strings.Repeat("ä", 200),
		} {
			rule := map[string]any{"unit": "minute", "duration": int64(1), "maxRequests": int64(1), "endpoints": []any{endpoint}}
			taken, err := tryScheme(ctx, map[string]any{"rules": []any{rule}})
			Expect(taken).To(Equal(scheme.ValidEndpoint(endpoint)), "%q: %v", endpoint, err)
		}
	})

	// HTTP trims values before it validates them, and YAML is not trimmed. Values that differ only by outer blanks are
	// therefore not compared.
	It("on names and descriptions", func(ctx context.Context) {
		for _, sent := range []string{
			"a", "Free plan", "名前", "👩\u200d👩\u200d👧", "a\u200cb", "a\u00a0b", "a\u3000b", "e\u0301", "\u0301", "\u200d", "$ <b>&amp;\"'`\\",
			letters(80), letters(81), strings.Repeat("ä", 80), strings.Repeat("ä", 81), strings.Repeat("👧", 80), strings.Repeat("👧", 81),
			letters(500), letters(501), strings.Repeat("👧", 500), strings.Repeat("👧", 501), letters(40) + "\n" + letters(39),
			"", "two\nlines", "two\r\nlines", "two\rlines", "two\u2028lines", "two\u2029lines", "two\u0085lines", "two\vlines", "tab\tstop", "bell\a", "nul\x00", "del\x7f", "c1\u009f",
			"a\u202ab", "a\u202eb", "a\u2066b", "a\u2069b", "a\u200bb", "a\u2060b", "a\ufeffb", "a\u200eb", "a\u061cb", "a\u00adb", "a\u2061b", "\ufffd", "a\U000e0041b",
		} {
			_, faulty := text.Name(sent)
			taken, err := tryScheme(ctx, map[string]any{"displayName": sent})
			Expect(taken).To(Equal(faulty == nil), "name %q: YAML says %v, HTTP says %v", sent, err, faulty)
			_, faulty = text.Description(sent)
			taken, err = tryScheme(ctx, map[string]any{"description": sent})
			Expect(taken).To(Equal(faulty == nil), "description %q: YAML says %v, HTTP says %v", sent, err, faulty)
		}
	})

	It("on every blank name, and on what is served of one with blanks around it", func(ctx context.Context) {
		for r := range unicode.MaxRune {
			if !unicode.IsSpace(r) {
				continue
			}
			taken, err := tryScheme(ctx, map[string]any{"displayName": string(r) + string(r)})
			Expect(taken).To(BeFalse(), "U+%04X", r)
			Expect(err).To(MatchError(Or(ContainSubstring(notBlank), ContainSubstring("should match"))))
		}
		taken, err := tryScheme(ctx, map[string]any{"displayName": " a\u3000"})
		Expect(taken).To(BeTrue(), "%v", err)
	})

	It("on every character there is", func() {
		spec := definitions()[v1alpha1.KindRateLimitScheme].Properties["spec"]
		name := regexp.MustCompile(spec.Properties["displayName"].Pattern)
		description := regexp.MustCompile(spec.Properties["description"].Pattern)
		for r := range rune(unicode.MaxRune + 1) {
			if !utf8.ValidRune(r) {
				continue
			}
			sent := "a" + string(r) + "b"
			_, nameFault := text.Name(sent)
			_, descriptionFault := text.Description(sent)
			if name.MatchString(sent) != (nameFault == nil) || description.MatchString(sent) != (descriptionFault == nil) {
				Fail(fmt.Sprintf("they differ on U+%04X", r))
			}
		}
	})
})
