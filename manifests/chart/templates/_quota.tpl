{{/* Not empty if Helm reads from the cluster. It does not for `helm template` and in Argo CD. */}}
{{- define "eventquota.cluster" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}yes{{ end -}}
{{- end }}

{{/* A ClusterEventQuota that follows the values until somebody edits it. Parameters: root, name, and object, the manifest as text, because
decoding and encoding its YAML would turn 1000000 into 1e+06.

It is a hook, because Helm looks up the kinds of all other objects before it applies the first, and the definition of this kind may be
among them. A rollback and an uninstallation leave hooks alone. Helm deletes an object before it creates it as a hook. So its generation
is 1 until somebody edits its spec, and the checksum tells whether the values have changed since.

Without the cluster, nobody can tell: it is an object like all others then. */}}
{{- define "eventquota.quota" -}}
{{- $annotations := dict -}}
{{- $render := true -}}
{{- if include "eventquota.cluster" .root -}}
{{- $checksum := get (fromYaml .object) "spec" | toJson | sha256sum -}}
{{- $annotations = dict
  "helm.sh/hook" "post-install,post-upgrade"
  "helm.sh/hook-delete-policy" "before-hook-creation"
  "checksum/spec" $checksum -}}
{{- if .root.Capabilities.APIVersions.Has "eventquota.io/v1alpha1/ClusterEventQuota" -}}
{{- with lookup "eventquota.io/v1alpha1" "ClusterEventQuota" "" .name -}}
{{- $recorded := dig "annotations" "checksum/spec" $checksum .metadata -}}
{{- $render = and (eq (int .metadata.generation) 1) (ne $recorded $checksum) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $render -}}
{{- $metadata := printf "\nmetadata:\n  name: %s\n" .name -}}
{{- $ours := printf "%s  labels:\n%s\n" $metadata (include "eventquota.labels" .root | indent 4) -}}
{{- with $annotations }}{{ $ours = printf "%s  annotations:\n%s\n" $ours (toYaml . | indent 4) }}{{ end -}}
{{ .object | replace $metadata $ours }}
{{- end -}}
{{- end }}
