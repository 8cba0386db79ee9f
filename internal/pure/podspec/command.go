// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Command is the command line of a container: its own command, else its image's, with
// its own arguments, or with the image's if the command is the image's too.
func Command(c *corev1.Container, image Image, env []string) ([]string, error) {
	lookup := In(env)
	var args []string
	if len(c.Command) > 0 {
		args = expandAll(c.Command, lookup)
	} else {
		args = slices.Clone(image.Entrypoint)
	}
	switch {
	case len(c.Args) > 0:
		args = append(args, expandAll(c.Args, lookup)...)
	case len(c.Command) == 0:
		args = append(args, image.Cmd...)
	}
	if len(args) == 0 || args[0] == "" {
		return nil, errors.New("neither the container nor its image says what to run: set its command")
	}
	return args, nil
}

// Dir is where it runs.
func Dir(c *corev1.Container, image Image) string {
	switch {
	case c.WorkingDir != "":
		return c.WorkingDir
	case image.Dir != "":
		return image.Dir
	}
	return "/"
}

// In looks a name up in an environment, where the last one counts.
func In(env []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, e := range slices.Backward(env) {
			if n, value, _ := strings.Cut(e, "="); n == name {
				return value, true
			}
		}
		return "", false
	}
}

func expandAll(texts []string, lookup func(string) (string, bool)) []string {
	var all []string
	for _, t := range texts {
		all = append(all, Expand(t, lookup))
	}
	return all
}

// Expand replaces $(NAME) in a text by the value of NAME. $$ is an escaped dollar sign,
// and a name without a value is unchanged.
func Expand(text string, lookup func(string) (string, bool)) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if rest, ok := strings.CutPrefix(after, "$"); ok {
			b.WriteByte('$')
			text = rest
			continue
		}
		text = after
		rest, ok := strings.CutPrefix(after, "(")
		name, end, closed := strings.Cut(rest, ")")
		if !ok || !closed {
			b.WriteByte('$')
			continue
		}
		if value, ok := lookup(name); ok {
			b.WriteString(value)
		} else {
			b.WriteString("$(" + name + ")")
		}
		text = end
	}
}
