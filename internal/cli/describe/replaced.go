// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// writeReplacement prints why a Machine is replaced: the fields first, then the sources.
func writeReplacement(w io.Writer, r causes.Replacement, now time.Time) error {
	var b strings.Builder
	if len(r.Statements) == 0 {
		fmt.Fprintf(&b, "Nothing requires the replacement of %s.\n", r.Machine)
	} else {
		verb := map[bool]string{true: "is", false: "was"}[r.Exists]
		fmt.Fprintf(&b, "%s %s replaced:\n", r.Machine, verb)
	}
	for _, d := range r.Differences {
		if d.From == "" && d.To == "" {
			fmt.Fprintf(&b, "  %s differs\n", sanitize.Escape(d.Field))
			continue
		}
		fmt.Fprintf(&b, "  %s: %s, required %s\n", sanitize.Escape(d.Field), sanitize.Escape(d.From), sanitize.Escape(d.To))
	}
	for _, s := range r.Statements {
		ago := ""
		if s.At != nil {
			ago = ", " + duration.HumanDuration(now.Sub(s.At.Time)) + " ago"
		}
		fmt.Fprintf(&b, "%s%s:\n  %s\n", s.Source, ago, strings.ReplaceAll(sanitize.Escape(s.Text), "\n", "\n  "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
