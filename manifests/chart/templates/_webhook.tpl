{{/* What both webhook configurations have in common. */}}
{{- define "eventquota.webhook" -}}
{{- $namespace := include "eventquota.namespace" .root -}}
{{- $certificates := .root.Values.certificates -}}
{{- $webhook := .root.Values.webhook -}}
{{- $annotations := deepCopy $webhook.annotations -}}
{{- if eq $certificates.mode "certManager" -}}
{{- $_ := set $annotations "cert-manager.io/inject-ca-from" (printf "%s/%s" $namespace (include "eventquota.certificate" .root)) -}}
{{- end }}
metadata:
  name: {{ .name }}
  labels:
    {{- include "eventquota.labels" .root | fromYaml | mergeOverwrite (deepCopy $webhook.labels) | toYaml | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
webhooks:
- name: {{ .name }}
  admissionReviewVersions: [v1]
  clientConfig:
    service:
      namespace: {{ $namespace | quote }}
      name: eventquota
      {{- if ne $certificates.mode "selfManaged" }}
      path: {{ .path }}
      {{- end }}
      port: 443
    {{- if eq $certificates.mode "provided" }}
    caBundle: {{ b64enc $certificates.provided.caBundle }}
    {{- end }}
  # One rule for both Event APIs: with Equivalent, the API server converts events.k8s.io to core, in one call.
  rules:
  - apiGroups: [""]
    apiVersions: [v1]
    resources: [events]
    operations: {{ toJson .operations }}
    scope: Namespaced
  matchPolicy: Equivalent
  # Events about the webhook itself are always stored.
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values: [{{ $namespace | quote }}]
    {{- with $webhook.namespaceSelector.matchExpressions }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with $webhook.namespaceSelector.matchLabels }}
    matchLabels:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  matchConditions:
  - name: not-the-settler
    expression: request.userInfo.username != "system:serviceaccount:{{ $namespace }}:eventquota"
  {{- with $webhook.matchConditions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  failurePolicy: Ignore  # if the webhook hangs, an Event is stored after the timeout
  timeoutSeconds: {{ int $webhook.timeoutSeconds }}  # a waiting call holds a seat of its priority level
  sideEffects: NoneOnDryRun
{{- end }}
