{{- define "gvList" -}}
# The resources

Generated from `api/v1alpha1` by `make docs`; edit the comments there. `kubectl explain` shows the same text.

{{ range . -}}
{{ template "gvDetails" . }}
{{ end -}}
{{- end -}}
