{{- define "gvList" -}}
# The resources

Generated from `api/v1alpha1` by `make docs`; edit the comments there. `kubectl explain` tells the same.

{{ range . -}}
{{ template "gvDetails" . }}
{{ end -}}
{{- end -}}
