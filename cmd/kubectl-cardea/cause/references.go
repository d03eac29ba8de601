// Package cause finds out why a resource is not active. It reads the conditions of the resource and of all referenced
// objects, and describes the fix.
package cause

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Kinds that resources refer to in addition to Cardea's own.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// Reference is a reference of a resource to another object of its namespace.
type Reference struct {
	// Field is the path in the resource, such as spec.toolRefs[1].
	Field string
	Kind  string
	Name  string
}

// referents maps the API's reference types to the kinds that they refer to.
var referents = map[reflect.Type]string{
	reflect.TypeFor[v1alpha1.DeploymentReference]():            v1alpha1.KindIdentityDeployment,
	reflect.TypeFor[v1alpha1.RateLimitSchemeReference]():       v1alpha1.KindRateLimitScheme,
	reflect.TypeFor[v1alpha1.APIAuthAppReference]():            v1alpha1.KindAPIAuthApp,
	reflect.TypeFor[v1alpha1.MembershipRoleReference]():        v1alpha1.KindMembershipRole,
	reflect.TypeFor[v1alpha1.OAuthAppReference]():              v1alpha1.KindOAuthApp,
	reflect.TypeFor[v1alpha1.JWTTemplateReference]():           v1alpha1.KindJWTTemplate,
	reflect.TypeFor[v1alpha1.AIToolReference]():                v1alpha1.KindAITool,
	reflect.TypeFor[v1alpha1.SecretKeyReference]():             KindSecret,
	reflect.TypeFor[v1alpha1.ExistingSecretReference]():        KindSecret,
	reflect.TypeFor[v1alpha1.ExistingClientSecretReference]():  KindSecret,
	reflect.TypeFor[v1alpha1.ExistingTokenReference]():         KindSecret,
	reflect.TypeFor[v1alpha1.ExistingSigningSecretReference](): KindSecret,
	reflect.TypeFor[v1alpha1.ConfigMapKeyReference]():          KindConfigMap,
	reflect.TypeFor[v1alpha1.ConnectionReference]():            v1alpha1.KindConnection,
}

// References returns the references in the spec of a resource, in the order of its fields.
func References(obj v1alpha1.Resource) []Reference {
	var found []Reference
	collect(reflect.ValueOf(obj).Elem().FieldByName("Spec"), "spec", &found)
	return found
}

func collect(v reflect.Value, path string, found *[]Reference) {
	if kind, isReference := referents[v.Type()]; isReference {
		if name := v.FieldByName("Name").String(); name != "" {
			*found = append(*found, Reference{Field: path, Kind: kind, Name: name})
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			collect(v.Elem(), path, found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), fmt.Sprintf("%s[%d]", path, i), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				collect(v.Field(i), join(path, field), found)
			}
		}
	}
}

// join appends the JSON name of a field; inlined fields add none.
func join(path string, field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		return path
	}
	return path + "." + name
}

// ReferentOf returns the kind that a type of the API refers to, "" if it refers to none.
func ReferentOf(typ reflect.Type) string { return referents[typ] }
