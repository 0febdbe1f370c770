{{/* What both webhook configurations have in common. */}}
{{- define "eventquota.webhook" -}}
{{- $namespace := .root.Release.Namespace -}}
{{- $certificates := .root.Values.certificates }}
metadata:
  name: {{ .name }}
  labels:
    {{- include "eventquota.labels" .root | nindent 4 }}
  {{- if eq $certificates.mode "certManager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ $namespace }}/{{ include "eventquota.certificate" .root }}
  {{- end }}
webhooks:
- name: {{ .name }}
  admissionReviewVersions: [v1]
  clientConfig:
    service:
      namespace: {{ $namespace }}
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
      values: [{{ $namespace }}]
  matchConditions:
  - name: not-the-settler
    expression: request.userInfo.username != "system:serviceaccount:{{ $namespace }}:eventquota"
  failurePolicy: Ignore  # if the webhook hangs, an Event is stored after the timeout
  timeoutSeconds: 1  # a waiting call holds a seat of its priority level
  sideEffects: NoneOnDryRun
{{- end }}
