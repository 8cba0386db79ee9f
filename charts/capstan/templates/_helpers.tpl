{{- define "capstan.labels" -}}
app.kubernetes.io/name: capstan
app.kubernetes.io/component: manager
{{- end }}

{{- define "capstan.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag | replace "+" "_" }}{{ end }}
{{- end }}
{{- end }}
