// SPDX-License-Identifier: Apache-2.0

package nodesync

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Additional selects labels and annotations that go from Machine to Node as those of
// our domains do. The zero value selects none.
type Additional struct{ Labels, Annotations Patterns }

// Patterns select keys that one of them matches, anywhere unless it is anchored. It is
// the value of a flag.
type Patterns []*regexp.Regexp

// Match reports whether a pattern matches a key.
func (p Patterns) Match(key string) bool {
	return slices.ContainsFunc(p, func(r *regexp.Regexp) bool { return r.MatchString(key) })
}

// Set implements pflag.Value: it adds patterns, with commas between.
func (p *Patterns) Set(text string) error {
	patterns, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil && !errors.Is(err, io.EOF) { // of an empty text
		return err
	}
	for _, pattern := range patterns {
		r, err := regexp.Compile(pattern)
		if err != nil {
			return fmt.Errorf("%w: give regular expressions, with commas between", err)
		}
		*p = append(*p, r)
	}
	return nil
}

// String implements pflag.Value: it is all patterns as Set reads them.
func (p *Patterns) String() string {
	var all []string
	for _, r := range *p {
		all = append(all, r.String())
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	_ = w.Write(all) // a Builder never fails
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}

// Type implements pflag.Value.
func (*Patterns) Type() string { return "regexp,..." }
