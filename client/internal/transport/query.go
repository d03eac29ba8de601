package transport

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
)

// encodeQuery returns the query of a struct, whose fields are named by their tag form. Nil pointers are left out, and a
// list has one parameter for each element.
func encodeQuery(params any) string {
	if params == nil {
		return ""
	}
	query := url.Values{}
	fields := reflect.ValueOf(params)
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("form"), ",")
		value := fields.Field(i)
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		}
		if value.Kind() == reflect.Slice {
			for j := range value.Len() {
				query.Add(name, fmt.Sprint(value.Index(j)))
			}
			continue
		}
		query.Set(name, fmt.Sprint(value))
	}
	return query.Encode()
}
