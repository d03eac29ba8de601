{{- define "gvList" -}}
# The resources

Generated from `api/v1alpha1` by `make docs`; edit the comments there. `kubectl explain` shows the same text. For the kind
Connection, start with [connections.md](connections.md); for the kind Directory, with [scim.md](scim.md).

{{ range . -}}
{{ template "gvDetails" . }}
{{ end -}}
{{- end -}}
