// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

const (
	// maxChanges is how many changed facts are shown for one decision, as many as are
	// read at a glance; -o json has all facts.
	maxChanges = 8
	// maxValue is how much of the value of a fact is shown, in bytes: two fit in a line.
	maxValue = 50
	// maxLine is how much of a line of a plan is shown, in bytes.
	maxLine = 1000
)

// show prints decisions, each with the facts that changed since the previous one of the
// same planner about the same object.
func show(env *command.Env, all []decisions.Decision) error {
	type of struct {
		planner string
		object  decisions.Object
	}
	previous := map[of]map[string]string{}
	for i, d := range all {
		if i == 0 || d.Object != all[i-1].Object {
			env.Print("%s %s/%s (UID %s)", d.Object.Kind, d.Object.Namespace, d.Object.Name, d.Object.UID)
		}
		env.Print("%s  %s", d.Time.UTC().Format(time.RFC3339), d.Controller)
		if len(d.Plan) > 0 || d.Omitted == "" {
			for _, line := range decisions.Words(d.Plan) {
				env.Print("    %s", sanitize.Line(line, maxLine))
			}
		}
		if d.Error != "" {
			env.Print("    error: %s", sanitize.Line(d.Error, maxLine))
		}
		if d.Omitted != "" {
			env.Print("    not recorded: %s", d.Omitted)
			continue
		}
		key, facts := of{d.Planner, d.Object}, flatten(d.Facts)
		if before, known := previous[key]; known {
			printChanges(env, changes(before, facts))
		}
		previous[key] = facts
	}
	return nil
}

func printChanges(env *command.Env, lines []string) {
	for i, line := range lines {
		if i == maxChanges {
			env.Print("      and %d more changed facts: -o json has all", len(lines)-i)
			return
		}
		env.Print("      %s", sanitize.Line(line, maxLine))
	}
}

// flatten returns the values of facts by their paths, without those that change although
// nothing happens. An element of a list is named by its name or type, if it has one.
func flatten(facts json.RawMessage) map[string]string {
	out := map[string]string{}
	if v, err := decisions.Decode(decisions.Lasting(facts)); err == nil {
		add(out, "", v)
	}
	return out
}

func add(out map[string]string, at string, v any) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for name, value := range v {
			add(out, strings.TrimPrefix(at+"."+name, "."), value)
		}
	case []any:
		for i, value := range v {
			add(out, fmt.Sprintf("%s[%s]", at, element(i, value)), value)
		}
	default:
		if text := decisions.Text(v); text != decisions.AnyTime {
			out[at] = text
		}
	}
}

func element(i int, v any) string {
	if object, is := v.(map[string]any); is {
		metadata, _ := object["metadata"].(map[string]any)
		for _, name := range []any{metadata["name"], object["name"], object["type"]} {
			if name, is := name.(string); is && name != "" {
				return name
			}
		}
	}
	return fmt.Sprint(i)
}

// changes are the differences of facts, sorted by path. An element of a list that is new
// or is no longer there is one difference.
func changes(before, after map[string]string) []string {
	all := maps.Clone(before)
	maps.Copy(all, after)
	elementsBefore, elementsAfter := elements(before), elements(after)
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		was, had := before[path]
		is, has := after[path]
		was, is = sanitize.Line(was, maxValue), sanitize.Line(is, maxValue)
		switch {
		case !had:
			lines = append(lines, "+ "+whole(path, is, elementsBefore))
		case !has:
			lines = append(lines, "- "+whole(path, was, elementsAfter))
		case before[path] != after[path]:
			lines = append(lines, fmt.Sprintf("~ %s: %s -> %s", path, was, is))
		}
	}
	return slices.Compact(lines)
}

// elements are the elements of all lists in facts.
func elements(facts map[string]string) map[string]bool {
	out := map[string]bool{}
	for path := range facts {
		for i, c := range path {
			if c == ']' {
				out[path[:i+1]] = true
			}
		}
	}
	return out
}

// whole returns the element of a list that has the path, if only one side has it, and
// otherwise the path with its value.
func whole(path, value string, others map[string]bool) string {
	for i, c := range path {
		if c == ']' && !others[path[:i+1]] {
			return path[:i+1]
		}
	}
	return path + ": " + value
}
