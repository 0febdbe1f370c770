{{- define "gvList" -}}
{{- $types := dict }}{{ range . }}{{ range .SortedTypes }}{{ $_ := set $types .Name . }}{{ end }}{{ end -}}
# Policies and quotas

This page lists every field of `EventPolicy`, `ClusterEventPolicy`, `EventQuota` and `ClusterEventQuota`, and the bounds that apply to
them. The API group is `{{ (index $types "EventPolicy").GVK.Group }}`, the version `{{ (index $types "EventPolicy").GVK.Version }}`.
[Concepts](concepts.md#policies-and-quotas) explains how they work together, and [the examples](../manifests/examples) show one for
each use. `kubectl explain clustereventquotas.spec` shows the same text in a terminal. `make generate` generates this page from the Go
types.

- [Match](#match), which all four kinds have
- [Policies](#policies): [ClusterEventPolicy](#clustereventpolicy), [EventPolicy](#eventpolicy)
- [Quotas](#quotas): [ClusterEventQuota](#clustereventquota), [EventQuota](#eventquota)
- [What a namespace may have](#what-a-namespace-may-have)
- [What conditions may cost](#what-conditions-may-cost)
- [Status](#status)
- [Columns of kubectl](#columns-of-kubectl)

Write durations as `1h30m`, `10s` or `1.5s`, with the units `h`, `m`, `s` and `ms`. An absent field has its default, even if the
object that contains it is absent. An empty bucket must refill within 720 hours, and in EventPolicy and EventQuota within 24 hours:
`burst * interval / tokens` must not exceed that.

## Match

{{ (index $types "Match").Doc }}

{{ template "fields" (dict "path" "spec.match" "type" (index $types "ClusterMatch")) }}
Only ClusterEventPolicy and ClusterEventQuota have `namespaceSelector` and `conditions`.

{{ range list (list "Policies" "Treatment" "ClusterEventPolicy" "EventPolicy") (list "Quotas" "Budget" "ClusterEventQuota" "EventQuota") -}}
{{ $common := list "match" }}{{ range (index $types (index . 1)).Members }}{{ $common = append $common .Name }}{{ end -}}
## {{ index . 0 }}

Both kinds have these fields:

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

All namespaces share the time and memory of the webhook and its store, so each namespace has bounds. They apply to each namespace
separately, and no setting changes them. The bounds of policies and quotas apply to EventPolicy and EventQuota; the number of cluster policies and quotas is not
bounded. `eventquota simulate` applies the same bounds. The [threat model](threat-model.md#bounds) names the test of each.

<!-- figures: namespace-bounds -->
<!-- end -->

If it is unknown whether a policy matches, the policy does not match. If it is unknown whether a quota matches, the quota applies, but
replaces no limit of another quota.

## What conditions may cost

Only ClusterEventPolicy and ClusterEventQuota have conditions. The worst-case cost of a condition is computed when it is compiled, and
holds for every Event. [Concepts](concepts.md#conditions) lists the functions that conditions may call, and the order in which policies
and quotas get their share of the total.

<!-- figures: condition-bounds -->
<!-- end -->

## Status

{{ (index $types "Status").Doc }}

{{ template "fields" (dict "path" "status" "type" (index $types "Status")) }}
## Columns of kubectl

`kubectl get` shows these columns; those marked "wide" need `-o wide`. `kubectl get event-rules -A` shows all four kinds. To get one
object by its name, use the short name of its kind (evp, cevp, evq or cevq). EventPolicy has the columns of ClusterEventPolicy without
Tier; EventQuota has those of ClusterEventQuota without Precedence.
{{ range list "ClusterEventPolicy" "ClusterEventQuota" }}
| {{ . }} | meaning |
|---|---|
{{ range index (index $types .).Markers "kubebuilder:printcolumn" -}}
| {{ .Name }}{{ if .Priority }} (wide){{ end }} | {{ .Description | default "Time since the object was created" }} |
{{ end -}}
{{- end -}}
{{- end -}}
