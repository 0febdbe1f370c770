{{- define "gvList" -}}
{{- $types := dict }}{{ range . }}{{ range .SortedTypes }}{{ $_ := set $types .Name . }}{{ end }}{{ end -}}
# Policies and quotas

All fields of `EventPolicy`, `ClusterEventPolicy`, `EventQuota` and `ClusterEventQuota`, API group
`{{ (index $types "EventPolicy").GVK.Group }}`, version `{{ (index $types "EventPolicy").GVK.Version }}`. How they work together is in
[concepts](concepts.md#policies-and-quotas), and [the examples](../manifests/examples) have one for each use.
`kubectl explain clustereventquotas.spec` shows the same in a terminal. This page is made from the Go types by `make generate`.

- [Match](#match), which all have
- [Policies](#policies): [ClusterEventPolicy](#clustereventpolicy), [EventPolicy](#eventpolicy)
- [Quotas](#quotas): [ClusterEventQuota](#clustereventquota), [EventQuota](#eventquota)
- [What a namespace may have](#what-a-namespace-may-have)
- [What conditions may cost](#what-conditions-may-cost)
- [Status](#status)
- [Columns of kubectl](#columns-of-kubectl)

Durations are written as `1h30m`, `10s` or `1.5s`, by the units `h`, `m`, `s` and `ms`. An absent field has its default, also
where the object that holds it is absent. A bucket must fill within 720 hours, and within 24 hours in EventPolicy and EventQuota:
`burst * interval / tokens` may not be more.

## Match

{{ (index $types "Match").Doc }}

{{ template "fields" (dict "path" "spec.match" "type" (index $types "ClusterMatch")) }}
`namespaceSelector` and `conditions` are for ClusterEventPolicy and ClusterEventQuota only.

{{ range list (list "Policies" "Treatment" "ClusterEventPolicy" "EventPolicy") (list "Quotas" "Budget" "ClusterEventQuota" "EventQuota") -}}
{{ $common := list "match" }}{{ range (index $types (index . 1)).Members }}{{ $common = append $common .Name }}{{ end -}}
## {{ index . 0 }}

The fields of both kinds:

{{ template "fields" (dict "path" "spec" "type" (index $types (index . 1))) }}
{{ range slice . 2 -}}
### {{ . }}

{{ (index $types .).Doc }}

{{ $own := list }}{{ range (index $types (printf "%sSpec" .)).Members }}{{ if not (has .Name $common) }}{{ $own = append $own .Name }}{{ end }}{{ end -}}
{{ if $own }}Its `spec` has `match`, the fields of both kinds, and:

{{ template "fields" (dict "path" (printf "%s spec" .) "type" (index $types (printf "%sSpec" .)) "without" $common) }}
{{ else }}Its `spec` has `match` and the fields of both kinds.

{{ end }}{{ end }}{{ end -}}
## What a namespace may have

What a namespace writes may take only so much of the time and memory that all share. These bounds hold for each namespace by itself, and no
setting changes them. Those of policies and quotas are for EventPolicy and EventQuota: there may be any number of the others.
`eventquota simulate` applies them too. The [threat model](threat-model.md#bounds) has the test of each.

<!-- figures: namespace-bounds -->
<!-- end -->

Where it is unknown whether a policy matches, it does not; where it is unknown whether a quota matches, it applies, and replaces no limit of another.

## What conditions may cost

Only ClusterEventPolicy and ClusterEventQuota have conditions. What one may cost is known before it runs, whatever the Event is.
[Concepts](concepts.md#policies-and-quotas) has the functions that conditions may call, and the order in which rules take their part.

<!-- figures: condition-bounds -->
<!-- end -->

## Status

{{ (index $types "Status").Doc }}

{{ template "fields" (dict "path" "status" "type" (index $types "Status")) }}
## Columns of kubectl

What `kubectl get` shows; with `-o wide` those marked so too. `kubectl get event-rules -A` shows all four kinds. To get one object by its name, use the short name of its kind (evp, cevp, evq or cevq).
{{ range list "ClusterEventPolicy" "ClusterEventQuota" }}
| {{ . }} | what it is |
|---|---|
{{ range index (index $types .).Markers "kubebuilder:printcolumn" -}}
| {{ .Name }}{{ if .Priority }} (wide){{ end }} | {{ .Description | default "How long there has been the object" }} |
{{ end -}}
{{- end -}}
{{- end -}}
