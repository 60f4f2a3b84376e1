{{- define "oscar.labels" -}}
app: {{ .Values.name }}
app.kubernetes.io/name: {{ .Values.name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "oscar.selector" -}}
app: {{ .Values.name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "oscar.minio" -}}
{{ .Values.name }}-minio
{{- end }}

{{- define "oscar.minioLabels" -}}
{{ include "oscar.minioSelector" . }}
app.kubernetes.io/name: {{ include "oscar.minio" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "oscar.minioSelector" -}}
app: {{ include "oscar.minio" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "oscar.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "oscar.secret" -}}
{{ .Values.existingSecret | default (printf "%s-secrets" .Values.name) }}
{{- end }}

{{- define "oscar.events" -}}
http://{{ .Values.name }}.{{ .Release.Namespace }}:{{ .Values.service.port }}/system/events/storage
{{- end }}

{{/* Under which the manager is reached: what is said, or what the ingress has. */}}
{{- define "oscar.endpoint" -}}
{{- if .Values.endpoint }}{{ .Values.endpoint }}
{{- else if and .Values.ingress.create .Values.ingress.host }}{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- end }}
{{- end }}

{{- define "oscar.storeEndpoint" -}}
{{- if .Values.minIO.endpoint }}{{ .Values.minIO.endpoint }}
{{- else if .Values.minIO.deploy }}http://{{ include "oscar.minio" . }}.{{ .Release.Namespace }}:9000
{{- end }}
{{- end }}

{{- define "oscar.publicStoreEndpoint" -}}
{{- if .Values.minIO.publicEndpoint }}{{ .Values.minIO.publicEndpoint }}
{{- else if and .Values.minIO.deploy .Values.minIO.ingress.create .Values.minIO.ingress.host }}{{ ternary "https" "http" (ne .Values.minIO.ingress.tlsSecret "") }}://{{ .Values.minIO.ingress.host }}
{{- end }}
{{- end }}

{{/* The settings as the manager reads them from a file. */}}
{{- define "oscar.settings" -}}
{{- $settings := dict
  "OSCAR_BACKEND" "kubernetes"
  "OSCAR_NAME" .Values.name
  "OSCAR_NAMESPACE" .Release.Namespace
  "OSCAR_SERVICES_NAMESPACE" .Values.servicesNamespace
  "OSCAR_CONTROLLER_SERVICE_ACCOUNT" .Values.serviceAccount.name
  "OSCAR_CLUSTER_ID" .Values.clusterId
  "OSCAR_STAGING_IMAGE" (include "oscar.image" .)
  "OSCAR_STAGING_PULL_POLICY" .Values.image.pullPolicy
  "OSCAR_USERNAME" .Values.authUser
  "READ_TIMEOUT" (int .Values.readTimeout)
  "WRITE_TIMEOUT" (int .Values.writeTimeout)
  "MINIO_ENDPOINT" (include "oscar.storeEndpoint" .)
  "MINIO_TLS_VERIFY" (eq (toString .Values.minIO.TLSVerify) "true")
  "MINIO_REGION" .Values.minIO.region
  "RESOURCE_MANAGER_ENABLE" .Values.resourceManager.enable
  "RESOURCE_MANAGER_INTERVAL" (int .Values.resourceManager.interval)
  "RESCHEDULER_ENABLE" .Values.rescheduler.enable
  "RESCHEDULER_INTERVAL" (int .Values.rescheduler.interval)
  "RESCHEDULER_THRESHOLD" (int .Values.rescheduler.threshold)
  "OIDC_ENABLE" .Values.oidc.enable
-}}
{{- with include "oscar.endpoint" . }}{{ $_ := set $settings "OSCAR_ENDPOINT" . }}{{ end -}}
{{- with include "oscar.publicStoreEndpoint" . }}{{ $_ := set $settings "MINIO_PUBLIC_ENDPOINT" . }}{{ end -}}
{{- with .Values.serverlessBackend }}{{ $_ := set $settings "SERVERLESS_BACKEND" . }}{{ end -}}
{{- if .Values.kueue.enable }}{{ $_ := set $settings "KUEUE_ENABLE" true }}{{ end -}}
{{- if or .Values.kueue.enable (hasKey .Values.config "KUEUE_ENABLE") }}
{{- with .Values.kueue.quota }}
{{- $_ := set $settings "KUEUE_DEFAULT_CPU" (.cpu | toString) -}}
{{- $_ := set $settings "KUEUE_DEFAULT_MEMORY" .memory -}}
{{- $_ := set $settings "KUEUE_DEFAULT_GPU" (int .gpu) -}}
{{- $_ := set $settings "KUEUE_DEFAULT_EPHEMERAL_STORAGE" .ephemeralStorage -}}
{{- end -}}
{{- end -}}
{{- if .Values.networkPolicy.users.enable }}{{ $_ := set $settings "OSCAR_CLOSED_NETWORKS" (include "oscar.closedNetworks" . | fromJsonArray) }}{{ end -}}
{{- with .Values.imagePullSecrets }}{{ $names := list }}{{ range . }}{{ $names = append $names .name }}{{ end }}{{ $_ := set $settings "OSCAR_STAGING_PULL_SECRETS" $names }}{{ end -}}
{{- with .Values.clusters }}{{ $_ := set $settings "OSCAR_CLUSTERS" . }}{{ end -}}
{{- with .Values.oidc.issuers }}{{ $_ := set $settings "OIDC_ISSUERS" . }}{{ end -}}
{{- with .Values.oidc.issuerAliases }}{{ $_ := set $settings "OIDC_ISSUER_ALIASES" . }}{{ end -}}
{{- with .Values.oidc.equalIssuers }}{{ $_ := set $settings "OIDC_EQUAL_ISSUERS" . }}{{ end -}}
{{- with .Values.oidc.idTokenIssuers }}{{ $_ := set $settings "OIDC_ID_TOKEN_ISSUERS" . }}{{ end -}}
{{- with .Values.oidc.audience }}{{ $_ := set $settings "OIDC_AUDIENCE" . }}{{ end -}}
{{- with .Values.oidc.groups }}{{ $_ := set $settings "OIDC_GROUPS" . }}{{ end -}}
{{- with .Values.oidc.clientId }}{{ $_ := set $settings "OIDC_CLIENT_ID" . }}{{ end -}}
{{- toYaml (mergeOverwrite $settings (deepCopy .Values.config)) }}
{{- end }}
