{{- define "gvList" -}}
{{- $types := dict }}{{ range . }}{{ range .SortedTypes }}{{ $_ := set $types .Name . }}{{ end }}{{ end -}}
{{- $common := list }}{{ range (index $types "CommonSpec").Members }}{{ $common = append $common .Name }}{{ end -}}
# Policies

All fields of `EventPolicy` and `ClusterEventPolicy`, API group `{{ (index $types "EventPolicy").GVK.Group }}`, version
`{{ (index $types "EventPolicy").GVK.Version }}`. How they work together is in [concepts](concepts.md#policies), and
[the examples](../manifests/examples) have one for each use. `kubectl explain clustereventpolicies.spec` shows the same in a
terminal. This page is made from the Go types by `make generate`.

- [Fields of both kinds](#fields-of-both-kinds)
- [ClusterEventPolicy](#clustereventpolicy)
- [EventPolicy](#eventpolicy)
- [Status](#status)
- [Columns of kubectl](#columns-of-kubectl)

Durations are written as `1h30m`, `10s` or `1.5s`, by the units `h`, `m`, `s` and `ms`. An absent field has its default, also
where the object that holds it is absent. A bucket must fill within 720 hours: `burst * interval / tokens` may not be more.

## Fields of both kinds

{{ template "fields" (dict "path" "spec" "type" (index $types "CommonSpec")) }}
{{- range list "ClusterEventPolicy" "EventPolicy" }}
## {{ . }}

{{ (index $types .).Doc }}

Its `spec` has the fields of both kinds, and these:

{{ template "fields" (dict "path" (printf "%s spec" .) "type" (index $types (printf "%sSpec" .)) "without" $common) }}
{{- end }}
## Status

{{ (index $types "PolicyStatus").Doc }}

{{ template "fields" (dict "path" "status" "type" (index $types "PolicyStatus")) }}
## Columns of kubectl

What `kubectl get clustereventpolicies,eventpolicies -A` shows; with `-o wide` those marked so too.

| column | what it is |
|---|---|
{{ range index (index $types "ClusterEventPolicy").Markers "kubebuilder:printcolumn" -}}
| {{ .Name }}{{ if .Priority }} (wide){{ end }} | {{ .Description | default "How long there has been the policy" }} |
{{ end -}}
{{- end -}}
