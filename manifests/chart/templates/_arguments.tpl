{{/* The arguments of the webhook, as a JSON list. */}}
{{- define "eventquota.arguments" -}}
{{- $arguments := list "serve" "--cert-dir=/etc/eventquota/certs"
  (printf "--shutdown-delay=%ds" (int .Values.shutdownDelaySeconds))
  (printf "--drain-timeout=%ds" (int .Values.drainTimeoutSeconds)) -}}
{{- if ne (int .Values.webhook.port) 10250 }}{{ $arguments = append $arguments (printf "--port=%d" (int .Values.webhook.port)) }}{{ end -}}
{{- if ne (int .Values.health.port) 8081 }}{{ $arguments = append $arguments (printf "--health-address=:%d" (int .Values.health.port)) }}{{ end -}}
{{- if ne (int .Values.metrics.port) 8443 }}{{ $arguments = append $arguments (printf "--metrics-address=:%d" (int .Values.metrics.port)) }}{{ end -}}
{{- with .Values.redis -}}
{{- if .tryOut.enabled -}}
{{- $arguments = append $arguments (printf "--redis-addresses=redis.%s.svc:6379" (include "eventquota.namespace" $)) -}}
{{- else if .addresses -}}
{{- $arguments = append $arguments (printf "--redis-addresses=%s" (join "," .addresses)) -}}
{{- end -}}
{{- $flags := dict
  "username" .username
  "prefix" .prefix
  "sentinel-master" .sentinel.master
  "sentinel-username" .sentinel.username
  "server-name" .tls.serverName -}}
{{- if include "eventquota.redis.secret" $ -}}
{{- $flags = merge $flags (dict
  "password-file" .passwordKey
  "sentinel-password-file" .sentinel.passwordKey
  "ca-file" .tls.caKey
  "cert-file" .tls.certKey
  "key-file" .tls.keyKey) -}}
{{- end -}}
{{- range $name := keys $flags | sortAlpha -}}
{{- with get $flags $name -}}
{{- $value := hasSuffix "-file" $name | ternary (printf "/etc/eventquota/redis/%s" .) . -}}
{{- $arguments = append $arguments (printf "--redis-%s=%s" $name $value) -}}
{{- end -}}
{{- end -}}
{{- with int .database }}{{ $arguments = append $arguments (printf "--redis-database=%d" .) }}{{ end -}}
{{- if .cluster }}{{ $arguments = append $arguments "--redis-cluster" }}{{ end -}}
{{- if .tls.enabled }}{{ $arguments = append $arguments "--redis-tls" }}{{ end -}}
{{- end -}}
{{- if eq .Values.certificates.mode "selfManaged" -}}
{{- $arguments = append $arguments "--self-managed-certificates" -}}
{{- end -}}
{{- with .Values.webhook.clients -}}
{{- if .caConfigMap }}{{ $arguments = append $arguments "--client-ca-file=/etc/eventquota/client-ca/ca.crt" }}{{ end -}}
{{- if .names }}{{ $arguments = append $arguments (printf "--client-names=%s" (join "," .names)) }}{{ end -}}
{{- end -}}
{{- with .Values.sink -}}
{{- if .otlpEndpoint }}{{ $arguments = append $arguments (printf "--sink-otlp-endpoint=%s" .otlpEndpoint) }}{{ end -}}
{{- if .stdout }}{{ $arguments = append $arguments "--sink-file=-" }}{{ end -}}
{{- if ne .events "All" }}{{ $arguments = append $arguments (printf "--sink=%s" .events) }}{{ end -}}
{{- if .admitted }}{{ $arguments = append $arguments "--sink-admitted" }}{{ end -}}
{{- end -}}
{{- if .Values.workloads.enabled }}{{ $arguments = append $arguments "--workloads" }}{{ end -}}
{{- if not .Values.metrics.secure }}{{ $arguments = append $arguments "--metrics-secure=false" }}{{ end -}}
{{- concat $arguments .Values.extraArgs | toJson -}}
{{- end }}
