{{- define "helenus-operator.labels" -}}
app.kubernetes.io/name: helenus-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "helenus-operator.selector" -}}
app.kubernetes.io/name: helenus-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What the operator may do with the objects of clusters. */}}
{{- define "helenus-operator.rules" -}}
- apiGroups: [helenus.dev]
  resources: [cassandraclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [helenus.dev]
  resources: [cassandraclusters/status, cassandranodes/status]
  verbs: [get, update, patch]
- apiGroups: [helenus.dev]
  resources: [cassandraclusters/finalizers, cassandranodes/finalizers]
  verbs: [update]
- apiGroups: [helenus.dev]
  resources: [cassandranodes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "helenus-operator.subject" -}}
- kind: ServiceAccount
  name: helenus-operator
  namespace: {{ .Release.Namespace }}
{{- end }}
