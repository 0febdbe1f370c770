{{- /* The type of a field in words. */ -}}
{{- define "kind" -}}
{{- $name := .Name }}{{ with .UnderlyingType }}{{ $name = .Name }}{{ end -}}
{{- if eq .Kind 5 }}list of {{ if has $name (list "string" "KeyPart" "EventType") }}strings{{ else }}objects{{ end }}
{{- else if has $name (list "int32" "int64") }}integer
{{- else if eq $name "bool" }}boolean
{{- else if eq $name "string" }}string
{{- else if eq $name "Duration" }}duration
{{- else if eq $name "LabelSelector" }}label selector
{{- else if eq $name "Time" }}time
{{- else }}object
{{- end -}}
{{- end -}}

{{- /* The value of a field: its type, bounds and default. */ -}}
{{- define "value" -}}
{{- template "kind" .Type -}}
{{- $markers := .Markers -}}
{{- with .Type.UnderlyingType }}{{ if and (not (index $markers "kubebuilder:validation:Enum")) (index .Markers "kubebuilder:validation:Enum") }}{{ $markers = merge (dict) .Markers $markers }}{{ end }}{{ end -}}
{{- with index $markers "kubebuilder:validation:Enum" }}: {{ range $i, $v := index . 0 }}{{ if $i }}, {{ end }}`{{ $v }}`{{ end }}{{ end -}}
{{- $min := index $markers "kubebuilder:validation:Minimum" }}{{ $max := index $markers "kubebuilder:validation:Maximum" -}}
{{- if and $min $max }}, {{ printf "%.0f to %.0f" (index $min 0) (index $max 0) }}{{ else if $min }}, at least {{ printf "%.0f" (index $min 0) }}{{ end -}}
{{- with index $markers "kubebuilder:validation:MaxItems" }}; at most {{ index . 0 }} of them{{ end -}}
{{- with .Default }}; by default `{{ . | replace " " ", " }}`{{ end -}}
{{- if index $markers "required" }}; required{{ end -}}
{{- end -}}

{{- /* A Go doc comment without the name at its beginning. */ -}}
{{- define "doc" -}}
{{- $text := .Doc | replace "\n" " " | replace "|" "\\|" | regexFind " .*" | trim | trimPrefix "is " | trimPrefix "are " | trimPrefix "says " -}}
{{- printf "%s%s" (upper (substr 0 1 $text)) (substr 1 -1 $text) -}}
{{- end -}}

{{- /* A table of the fields of a type, except those in without, and a table for each object among them. */ -}}
{{- define "fields" -}}
{{- $path := .path }}{{ $without := .without | default list -}}
| field | value | meaning |
|---|---|---|
{{ range .type.Members }}{{ if not (has .Name $without) -}}
| `{{ .Name }}` | {{ template "value" . }} | {{ template "doc" . }} |
{{ end }}{{ end -}}
{{- range .type.Members }}{{ if not (has .Name $without) -}}
{{- $element := .Type }}{{ with .Type.UnderlyingType }}{{ $element = . }}{{ end -}}
{{- if and $element.Fields (ne $element.Name "Duration") (hasPrefix "github.com/eventquota/" $element.Package) }}
#### {{ $path }}.{{ .Name }}

{{ range index $element.Markers "kubebuilder:validation:XValidation" }}The API server refuses an object that breaks this rule: {{ with .FieldPath }}`{{ trimPrefix "." . }}` {{ end }}{{ .Message }}.

{{ end -}}
{{ template "fields" (dict "path" (printf "%s.%s" $path .Name) "type" $element) -}}
{{- end }}{{ end }}{{ end -}}
{{- end -}}
