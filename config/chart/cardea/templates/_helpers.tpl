{{/* cardea.helmLabels are what Helm's charts add to every object. Selectors never have them. */}}
{{- define "cardea.helmLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* cardea.labels: (dict "root" $ "component" "server"). */}}
{{- define "cardea.labels" -}}
{{ include "cardea.selector" . }}
{{ include "cardea.helmLabels" .root }}
{{- end }}

{{- define "cardea.selector" -}}
app.kubernetes.io/name: cardea
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* cardea.image: (dict "root" $ "tag" ""); a tag given counts over those of the image. */}}
{{- define "cardea.image" -}}
{{- $appVersion := .root.Chart.AppVersion }}
{{- $tag := .tag }}
{{- with .root.Values.image }}
{{- if and .digest (not $tag) }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ $tag | default .tag | default $appVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* cardea.redis is empty where servers count alone. */}}
{{- define "cardea.redis" -}}
{{ .Values.redis.secret.name }}
{{- end }}

{{/* cardea.component is the one that serves. */}}
{{- define "cardea.serving" -}}
{{ if .Values.standalone.enabled }}standalone{{ else }}server{{ end }}
{{- end }}

{{/* cardea.operatorFlags: what operator and standalone share. */}}
{{- define "cardea.operatorFlags" -}}
{{- if .Values.requireHostGrants }}
- --require-host-grants
{{- end }}
{{- end }}

{{/* cardea.serverFlags: what server and standalone share. */}}
{{- define "cardea.serverFlags" -}}
{{- with .Values.trustedProxies }}
- --trusted-proxies={{ join "," . }}
{{- end }}
{{- with .Values.egress.allowedCIDRs }}
- --egress-allowed-cidrs={{ join "," . }}
{{- end }}
{{- with .Values.egress.deniedCIDRs }}
- --egress-denied-cidrs={{ join "," . }}
{{- end }}
{{- if .Values.tls.secret.name }}
- --tls-cert=/etc/cardea/tls/tls.crt
- --tls-key=/etc/cardea/tls/tls.key
{{- end }}
{{- if and (include "cardea.redis" .) (not .Values.standalone.enabled) }}
- --replicas={{ .Values.server.replicas | int }}
{{- end }}
{{- end }}

{{/* cardea.commonFlags: what every workload has; (dict "root" $ "workload" .Values.server). */}}
{{- define "cardea.commonFlags" -}}
{{- $files := list }}
{{- range .root.Values.rootKey.secret.keys }}
{{- $files = append $files (printf "/etc/cardea/root-key/%s" .) }}
{{- end }}
- --root-key={{ join "," $files }}
{{- if ne .root.Values.logLevel "info" }}
- --log-level={{ .root.Values.logLevel }}
{{- end }}
{{- end }}

{{- define "cardea.extraFlags" -}}
{{- range .extraFlags }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* cardea.memory is 90 % of a workload's memory limit, in tens of MiB: collect harder before the kernel kills. */}}
{{- define "cardea.memory" -}}
{{- $limit := .resources.limits.memory }}
{{- $mebibytes := trimSuffix "Mi" $limit | int }}
{{- if hasSuffix "Gi" $limit }}
{{- $mebibytes = mul 1024 (trimSuffix "Gi" $limit | int) }}
{{- end -}}
{{ mul 10 (div (mul 9 $mebibytes) 100) }}MiB
{{- end }}

{{/* cardea.env: (dict "root" $ "workload" .Values.server "store" true "serving" true). */}}
{{- define "cardea.env" -}}
{{- if .store }}
- name: CARDEA_STORE
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.store.secret.name }}
      key: {{ .root.Values.store.secret.key }}
{{- end }}
{{- if and .serving (include "cardea.redis" .root) }}
- name: CARDEA_REDIS
  valueFrom:
    secretKeyRef:
      name: {{ .root.Values.redis.secret.name }}
      key: {{ .root.Values.redis.secret.key }}
{{- end }}
- name: GOMEMLIMIT
  value: {{ include "cardea.memory" .workload }}
{{- with .workload.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* cardea.podMetadata: (dict "component" "server" "workload" .Values.server). */}}
{{- define "cardea.podMetadata" -}}
{{- with .workload.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
labels:
  {{- with .workload.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- include "cardea.selector" . | nindent 2 }}
{{- end }}

{{/* cardea.scheduling: (dict "root" $ "workload" .Values.server). */}}
{{- define "cardea.scheduling" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- with .workload.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .workload.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .workload.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .workload.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "cardea.spread" -}}
topologySpreadConstraints:
- topologyKey: kubernetes.io/hostname
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "cardea.selector" . | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}

{{- define "cardea.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "cardea.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "cardea.servingPorts" -}}
- name: backend
  containerPort: 8080
- name: frontend
  containerPort: 8081
- name: decision
  containerPort: 8082
- name: grpc-envoy
  containerPort: 8083
{{- end }}

{{- define "cardea.probes" -}}
startupProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* cardea.mounts: (dict "root" $ "serving" true). */}}
{{- define "cardea.mounts" -}}
- name: root-key
  mountPath: /etc/cardea/root-key
  readOnly: true
{{- if and .serving .root.Values.tls.secret.name }}
- name: tls
  mountPath: /etc/cardea/tls
  readOnly: true
{{- end }}
{{- end }}

{{- define "cardea.volumes" -}}
- name: root-key
  secret:
    secretName: {{ .root.Values.rootKey.secret.name }}
    defaultMode: 0440
{{- if and .serving .root.Values.tls.secret.name }}
- name: tls
  secret:
    secretName: {{ .root.Values.tls.secret.name }}
    defaultMode: 0440
{{- end }}
{{- end }}
