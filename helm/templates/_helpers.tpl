{{- define "gateway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/* Names stay short enough for the suffixes of jobs and for the revision label of a StatefulSet's pods. */}}
{{- define "gateway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gateway.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ include "gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "gateway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "gateway.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "gateway.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{/* What cannot work together is refused here, where the remedy can be named. */}}
{{- define "gateway.check" -}}
{{- $several := or (gt (int .Values.replicaCount) 1) .Values.autoscaling.enabled -}}
{{- if not .Values.database.existingSecret }}
{{- fail "database.existingSecret is missing: make a Secret with the ledger's address (postgresql://user:password@host:5432/name) under the key `url`, and name it there" }}
{{- end }}
{{- if and $several (not .Values.serverSecret.existingSecret) }}
{{- fail "serverSecret.existingSecret is missing: replicas must share the seed of their fences; make a Secret with a random text under the key `secret` and name it there" }}
{{- end }}
{{- if and .Values.documents.existingClaim .Values.documents.configMap }}
{{- fail "documents.existingClaim and documents.configMap exclude each other: keep one of the two" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" }}
{{- end }}
{{- $host := dig "server" "host" "" .Values.config -}}
{{- if or (hasPrefix "127." $host) (has $host (list "localhost" "::1")) }}
{{- fail "config.server.host is a loopback address, where neither probes nor clients reach the gateway: leave it out" }}
{{- end }}
{{- if and (kindIs "string" (dig "server" "drain_seconds" 20 .Values.config)) (not .Values.terminationGracePeriodSeconds) }}
{{- fail "config.server.drain_seconds is no number, so the chart cannot tell how long a pod may take: set terminationGracePeriodSeconds" }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- fail "ingress.enabled needs ingress.host" }}
{{- end }}
{{- end }}

{{/* gateway.yaml: the user's configuration with the settings that follow from the chart. */}}
{{- define "gateway.config" -}}
{{- include "gateway.configFor" (dict "root" . "database" .Values.database) -}}
{{- end }}

{{/* The same for the jobs, which may have a role of their own in the database. */}}
{{- define "gateway.jobConfig" -}}
{{- include "gateway.configFor" (dict "root" . "database" (ternary .Values.maintenance .Values.database (not (empty .Values.maintenance.existingSecret)))) -}}
{{- end }}

{{- define "gateway.configFor" -}}
{{- $database := .database -}}
{{- with .root -}}
{{- $server := dict "host" "0.0.0.0" "log_format" "json" -}}
{{- $server = mergeOverwrite $server (deepCopy (.Values.config.server | default dict)) -}}
{{- $_ := set $server "port" (int .Values.containerPort) -}}
{{- if .Values.serverSecret.existingSecret -}}
{{- $_ := set $server "secret_file" (printf "/run/secrets/%s/%s" .Values.serverSecret.existingSecret .Values.serverSecret.key) -}}
{{- end -}}
{{- $ledger := deepCopy (.Values.config.ledger | default dict) -}}
{{- $_ := set $ledger "database_url_file" (printf "/run/secrets/%s/%s" $database.existingSecret $database.key) -}}
{{- if .Values.migrations.enabled -}}
{{- $_ := set $ledger "migrate" "never" -}}
{{- end -}}
{{- if .Values.maintenance.existingSecret -}}
{{- $_ := set $ledger "maintain" false -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "data_dir" "/var/lib/grounding-gateway" -}}
{{- $_ := set $config "server" $server -}}
{{- $_ := set $config "ledger" $ledger -}}
{{- toYaml $config -}}
{{- end -}}
{{- end }}

{{- define "gateway.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gateway.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Names of the Secrets that are mounted as files, each once; jobs have the maintenance role's in place of the gateway's. */}}
{{- define "gateway.secretNames" -}}
{{- $database := .root.Values.database.existingSecret -}}
{{- if .job -}}
{{- $database = .root.Values.maintenance.existingSecret | default $database -}}
{{- end -}}
{{- concat (list $database .root.Values.serverSecret.existingSecret) .root.Values.secretFiles | compact | uniq | toJson -}}
{{- end }}

{{/* Volumes of every pod, gateway or job; `configMap` is the name of the one with gateway.yaml. */}}
{{- define "gateway.volumes" -}}
- name: config
  configMap: {name: {{ .configMap }}}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- range include "gateway.secretNames" . | fromJsonArray }}
- name: {{ printf "secret-%s" (. | replace "." "-") | trunc 63 | trimSuffix "-" }}
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "gateway.volumeMounts" -}}
- {name: config, mountPath: /etc/grounding-gateway, readOnly: true}
- {name: data, mountPath: /var/lib/grounding-gateway}
- {name: tmp, mountPath: /tmp}
{{- range include "gateway.secretNames" . | fromJsonArray }}
- {name: {{ printf "secret-%s" (. | replace "." "-") | trunc 63 | trimSuffix "-" }}, mountPath: /run/secrets/{{ . }}, readOnly: true}
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "gateway.env" -}}
- name: GATEWAY_CONFIG
  value: /etc/grounding-gateway/gateway.yaml
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A probe of a path. With client certificates the kubelet has none to show, so only the port is tried. */}}
{{- define "gateway.probe" -}}
{{- $tls := dig "server" "tls" dict .root.Values.config -}}
{{- if and $tls $tls.client_ca -}}
tcpSocket: {port: http}
{{- else -}}
httpGet: {path: {{ .path }}, port: http, scheme: {{ ternary "HTTPS" "HTTP" (not (empty $tls)) }}}
{{- end }}
{{ toYaml .timing }}
{{- end }}
