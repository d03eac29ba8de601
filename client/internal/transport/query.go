package transport

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
)

// encodeQuery writes the fields of a struct by their tag form; nil pointers are left out, lists are repeated.
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
