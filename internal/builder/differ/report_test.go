// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Report is what a run found.
type Report struct {
	Steps  int            // applies that were compared
	Counts map[string]int // of what happened, by its name
	faults map[string]example
}

// example is the smallest case of a fault, and how often there was one.
type example struct {
	count, size         int
	wanted, live, after map[string]any
	note                string
}

func newReport() *Report {
	return &Report{Counts: map[string]int{}, faults: map[string]example{}}
}

// fault keeps a disagreement.
func (r *Report) fault(name string, e example) {
	e.live, e.after = maps.Clone(e.live), maps.Clone(e.after)
	delete(e.live, "status")
	delete(e.after, "status")
	text, _ := json.Marshal([]any{e.wanted, e.live}) // both were decoded from JSON
	e.count, e.size = r.faults[name].count+1, len(text)
	if have, ok := r.faults[name]; ok && have.size <= e.size {
		have.count = e.count
		e = have
	}
	r.faults[name] = e
}

// Faults lists, sorted, all disagreements with an example of each.
func (r *Report) Faults() []string {
	var out []string
	for _, name := range sorted(r.faults) {
		e := r.faults[name]
		lines := []string{fmt.Sprintf("%s, %d times: %s", name, e.count, e.note)}
		for what, object := range map[string]map[string]any{"wanted": e.wanted, "live": e.live, "answer": e.after} {
			text, err := json.Marshal(object)
			if err != nil {
				text = []byte(err.Error())
			}
			lines = append(lines, what+": "+string(text))
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	return out
}

// String lists what happened.
func (r *Report) String() string {
	var b strings.Builder
	for _, name := range sorted(r.Counts) {
		fmt.Fprintf(&b, "%8d  %s\n", r.Counts[name], name)
	}
	return b.String()
}
