{{- define "capstan.labels" -}}
app.kubernetes.io/name: capstan
app.kubernetes.io/component: manager
{{- end }}

{{- define "capstan.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag | replace "+" "_" }}{{ end }}
{{- end }}
{{- end }}
{{- /* Refuses the source of the chart, whichever template is rendered first. */ -}}
{{- define "capstan.whole" -}}
{{- if not (.Files.Glob "files/crds/*.yaml") }}
{{- fail "this folder is the source of the chart, without the definitions: write the whole with capstan generate manager --write-chart DIR" }}
{{- end }}
{{- end }}
