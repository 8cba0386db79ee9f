// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Pairs is the value of a flag that has NAME=VALUE each time. VALUE is any text: the map
// of pflag splits some at commas, and removes quotes.
type Pairs map[string]string

// Set implements pflag.Value.
func (p *Pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%s must be formatted as key=value", text)
	}
	if *p == nil {
		*p = Pairs{}
	}
	(*p)[name] = value
	return nil
}

// String implements pflag.Value.
func (p *Pairs) String() string { return strings.Join(slices.Sorted(maps.Keys(*p)), ", ") }

// Type implements pflag.Value.
func (p *Pairs) Type() string { return "NAME=VALUE" }
