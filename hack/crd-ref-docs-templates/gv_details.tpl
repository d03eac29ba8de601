{{- define "gvDetails" -}}
{{- $gv := . -}}
{{ $gv.Doc }}

## Kinds
{{ range $gv.SortedKinds }}
- {{ $gv.TypeForKind . | markdownRenderTypeLink }}
{{- end }}

## Types
{{ range $gv.SortedTypes }}
{{- template "type" . }}
{{- end }}
{{- end -}}
