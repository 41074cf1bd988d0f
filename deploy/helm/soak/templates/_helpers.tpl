{{- define "soak.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-soak" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{/* What selects pods: (list $ "component"). */}}
{{- define "soak.selector" -}}
app.kubernetes.io/name: soak
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "soak.labels" -}}
{{ include "soak.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{/* What all pods of soak share; the image runs as 10001. */}}
{{- define "soak.pod" -}}
serviceAccountName: {{ include "soak.account" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $key }}
{{ $key }}: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "soak.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "soak.name" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- define "soak.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "soak.image" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{ include "soak.container" . }}
{{- end }}

{{/* Addresses and settings: (list $ withLedger). An address comes from a Secret, or from the values. */}}
{{- define "soak.env" -}}
{{- $root := index . 0 -}}
- {name: SOAK_STORES__NAMES, value: {{ join "," $root.Values.stores | quote }}}
{{- range $name, $variable := dict "redis" "REDIS" "postgres" "POSTGRES" "postgresReplica" "POSTGRES_REPLICA" "chroma" "CHROMA" "http" "HTTP" "httpToken" "HTTP_TOKEN" }}
{{- $server := index $root.Values.servers $name }}
{{- if $server.secretName }}
- name: SOAK_SERVERS__{{ $variable }}
  valueFrom: {secretKeyRef: {name: {{ $server.secretName }}, key: {{ $server.secretKey }}}}
{{- else if $server.url }}
- {name: SOAK_SERVERS__{{ $variable }}, value: {{ $server.url | quote }}}
{{- end }}
{{- end }}
{{- if index . 1 }}
{{- with $root.Values.ledger }}
{{- if .enabled }}
- {name: SOAK_LEDGER__URL, value: "redis://{{ include "soak.name" $root }}-ledger:6379"}
{{- else if .secretName }}
- name: SOAK_LEDGER__URL
  valueFrom: {secretKeyRef: {name: {{ .secretName }}, key: {{ .secretKey }}}}
{{- else }}
- {name: SOAK_LEDGER__URL, value: {{ .url | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- if $root.Values.config }}
- {name: SOAK_CONFIG, value: /etc/soak/soak.toml}
{{- end }}
{{- with $root.Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "soak.mounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- if .Values.config }}
- {name: config, mountPath: /etc/soak, readOnly: true}
{{- end }}
{{- end }}

{{/* What is mounted there, but for data that is kept. */}}
{{- define "soak.volumes" -}}
- name: tmp
  emptyDir: {}
{{- if .Values.config }}
- name: config
  configMap: {name: {{ include "soak.name" . }}}
{{- end }}
{{- end }}

{{/* Who joins a run waits for one. */}}
{{- define "soak.wait" -}}
- name: wait-for-soak
  {{- include "soak.image" . | nindent 2 }}
  command:
    - python
    - -c
    - |
      import sys, time, urllib.request
      while True:
          try:
              urllib.request.urlopen(sys.argv[1], timeout=15)
              break
          except OSError as error:
              print(f"waiting for {sys.argv[1]}: {error}", flush=True)
              time.sleep(2)
    - http://{{ include "soak.name" . }}:9464/{{ ternary "readyz" "healthz" (eq .Values.mode "daemon") }}
  resources: {requests: {cpu: 10m, memory: 32Mi}, limits: {cpu: 200m, memory: 64Mi}}
{{- end }}
