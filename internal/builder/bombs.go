// SPDX-License-Identifier: Apache-2.0

package builder

// TemplateBombs are Go templates without their own bounds, of each sort. All run as
// plain text/template with sprig until memory or time is used up.
func TemplateBombs() map[string]string {
	return map[string]string{
		"loop with width":      `{{ range 99999999 }}{{ printf "%999999d" 1 }}{{ end }}`,
		"empty loops":          `{{ range 999999999 }}{{ range 999999999 }}{{ end }}{{ end }}`,
		"loop over a list":     `{{ range until 999999999 }}{{ end }}`,
		"recursion":            `{{ define "a" }}{{ template "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`,
		"text that doubles":    `{{ $x := "x" }}{{ range 64 }}{{ $x = print $x $x }}{{ end }}{{ len $x }}`,
		"list that doubles":    `{{ $x := list 1 }}{{ range 64 }}{{ $x = concat $x $x }}{{ end }}`,
		"map that doubles":     `{{ $x := dict }}{{ range 64 }}{{ $x = dict "a" $x "b" $x }}{{ end }}{{ toJson $x }}`,
		"repeated text":        `{{ repeat 999999999 "x" }}`,
		"indented text":        `{{ indent 999999999 "x" }}`,
		"numbers":              `{{ seq 1 999999999 }}`,
		"width from arguments": `{{ range 9999 }}{{ printf "%*d" 999999 1 }}{{ end }}`,
		"replaced text":        `{{ $x := repeat 99999 "x" }}{{ replace "x" $x $x }}`,
		"regular expression":   `{{ $x := repeat 99999 "x" }}{{ range 9999 }}{{ if regexMatch "(x?){999}y" $x }}{{ end }}{{ end }}`,
		"key":                  `{{ genPrivateKey "rsa" }}`,
		"random text":          `{{ randAlphaNum 999999999 }}`,
	}
}
