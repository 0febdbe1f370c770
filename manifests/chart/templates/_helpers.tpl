{{/* The namespace of all objects that have one. */}}
{{- define "eventquota.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "eventquota.labels" -}}
{{ include "eventquota.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels of pods, which an upgrade does not change. */}}
{{- define "eventquota.podLabels" -}}
{{ include "eventquota.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/part-of: eventquota
{{- end }}

{{/* The selector of the webhook's pods. That of a Deployment can never change. */}}
{{- define "eventquota.selector" -}}
app.kubernetes.io/name: eventquota
app.kubernetes.io/component: webhook
{{- end }}

{{- define "eventquota.redis.selector" -}}
app.kubernetes.io/name: redis
app.kubernetes.io/part-of: eventquota
{{- end }}

{{- define "eventquota.redis.podLabels" -}}
{{ include "eventquota.redis.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: store
{{- end }}

{{- define "eventquota.redis.labels" -}}
{{ include "eventquota.redis.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The Secret of Redis, if it has one. */}}
{{- define "eventquota.redis.secret" -}}
{{ .Values.redis.existingSecret | default (ternary "redis" "" .Values.redis.tryOut.enabled) }}
{{- end }}

{{/* An image from its values, with a default tag. */}}
{{- define "eventquota.image" -}}
{{- $tag := .image.tag | default .tag -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ $tag }}
{{- end -}}
{{- end }}

{{/* Not empty if replicas share their state. */}}
{{- define "eventquota.shared" -}}
{{- if or .Values.redis.addresses .Values.redis.tryOut.enabled }}yes{{ end -}}
{{- end }}

{{/* The Secret of the serving certificate. */}}
{{- define "eventquota.certificate" -}}
{{- if eq .Values.certificates.mode "provided" -}}
{{ .Values.certificates.provided.secretName }}
{{- else -}}
eventquota-serving-cert
{{- end -}}
{{- end }}

{{/* Nine tenths of a memory limit (in the format of the schema), in the format of GOMEMLIMIT. */}}
{{- define "eventquota.memoryLimit" -}}
{{- $mebibytes := regexFind "^[0-9]+" . | int -}}
{{- if hasSuffix "Gi" . }}{{ $mebibytes = mul $mebibytes 1024 }}{{ end -}}
{{ div (mul $mebibytes 9) 10 }}MiB
{{- end }}

{{/* The peers of a rule, if it has any: a rule without the list allows all peers. */}}
{{- define "eventquota.blocks" -}}
{{- with .cidrs }}
{{ $.side }}:
{{- range . }}
- ipBlock:
    cidr: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels and annotations of the objects of `helm test`. No selector matches its pod. */}}
{{- define "eventquota.test.metadata" -}}
labels:
  {{- include "eventquota.labels" .root | fromYaml | merge (dict "app.kubernetes.io/component" "test") | toYaml | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,{{ .delete }}
{{- end }}

{{/* The seats of the priority levels that are enabled. */}}
{{- define "eventquota.seats" -}}
{{- $seats := 0 -}}
{{- range list .Values.priorityLevels.eventsSystem .Values.priorityLevels.events .Values.priorityLevels.eventsList }}{{ if .enabled }}{{ $seats = add $seats (int .seats) }}{{ end }}{{ end -}}
{{ $seats }}
{{- end }}

{{/* The largest number of shares for which a priority level gets at most its seats. An API server divides its seats
in proportion to the shares of all levels, and rounds up. */}}
{{- define "eventquota.shares" -}}
{{- $levels := .root.Values.priorityLevels -}}
{{- $rest := sub (int $levels.serverSeats) (include "eventquota.seats" .root | int) -}}
{{- div (mul (int .seats) (int $levels.otherShares)) $rest | max 1 -}}
{{- end }}

{{/* How Prometheus knows the replicas, from a ServiceMonitor or a PodMonitor. */}}
{{- define "eventquota.scrapeTLS" -}}
# Prometheus sends the token only to a server with the certificate of the webhook.
tlsConfig:
  serverName: eventquota.{{ include "eventquota.namespace" . }}.svc
  ca:
    {{- if eq .Values.certificates.mode "provided" }}
    configMap:
      name: eventquota-ca
      key: ca.crt
    {{- else }}
    secret:
      name: {{ include "eventquota.certificate" . | quote }}
      key: ca.crt
    {{- end }}
{{- end }}
