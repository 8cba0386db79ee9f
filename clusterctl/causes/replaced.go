// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Difference is one field in which a Machine differs from what its owner requires.
type Difference struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

// Statement is a text of an object about a replacement.
type Statement struct {
	Source string       `json:"source"` // such as "Event SuccessfulDelete of MachineSet default/x"
	Text   string       `json:"text"`
	At     *metav1.Time `json:"at,omitempty"`
}

// Replacement explains why a Machine is or was replaced.
type Replacement struct {
	Machine Key  `json:"machine"`
	Exists  bool `json:"exists"`
	// Differences are those that the Machine, or an Event about it, reports.
	Differences []Difference `json:"differences,omitempty"`
	// Statements are what conditions, then what decisions and Events report, oldest first.
	Statements []Statement `json:"statements,omitempty"`
}

// replacing are the conditions of a Machine that say why it is replaced.
var replacing = []string{clusterv1.MachineUpToDateCondition, clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.DeletingCondition}

// Replaced explains the replacement of a Machine by its conditions, which are recorded ones
// or nil if it does not exist, and by statements of decisions and Events.
func Replaced(machine *Object, key Key, exists bool, statements []Statement) Replacement {
	r := Replacement{Machine: key, Exists: exists}
	if machine != nil {
		for _, t := range replacing {
			for _, f := range conditionsOf(machine, []string{t}) {
				r.Statements = append(r.Statements, Statement{Source: "Condition " + f.Type, Text: f.Message, At: &f.LastTransitionTime})
			}
		}
	}
	r.Statements = append(r.Statements, statements...)
	seen := map[Difference]bool{}
	for _, s := range r.Statements {
		for _, d := range differences(s.Text) {
			if !seen[d] {
				seen[d] = true
				r.Differences = append(r.Differences, d)
			}
		}
	}
	return r
}

// required is a difference in the form of the condition UpToDate, such as
// "Version v1.36.2, v1.37.0 required".
var required = regexp.MustCompile(`([A-Z][A-Za-z]*(?: [a-z]+)*) ((?:[A-Za-z]+ )?[^\s,;]+), ((?:[A-Za-z]+ )?[^\s,;]+) required`)

func differences(text string) (all []Difference) {
	for _, m := range required.FindAllStringSubmatch(text, -1) {
		all = append(all, Difference{Field: m[1], From: m[2], To: m[3]})
	}
	for l := range strings.Lines(text) {
		l = strings.TrimPrefix(strings.TrimSpace(l), "* ")
		if field, ok := strings.CutSuffix(l, " is not up-to-date"); ok {
			all = append(all, Difference{Field: field})
		}
	}
	return all
}
