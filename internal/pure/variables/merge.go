// SPDX-License-Identifier: Apache-2.0

package variables

import (
	"fmt"
	"slices"
	"strings"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Source is a source of variable definitions: the class itself, or a patch of it.
type Source struct {
	From      string // clusterv1.VariableDefinitionFromInline, or the name of the patch
	Variables []clusterv1.ClusterClassVariable
}

// maxSources is how many sources can define one variable.
const maxSources = 100

// Merge lists all variables by name, each with its definitions in the order of the
// sources. Sources with conflicting definitions of a variable are an error too: the
// definition for a value would be ambiguous. If the result exceeds the limits of a
// class, was is returned unchanged.
func Merge(sources []Source, was []clusterv1.ClusterClassStatusVariable) ([]clusterv1.ClusterClassStatusVariable, error) {
	byName := map[string]*clusterv1.ClusterClassStatusVariable{}
	first := map[string]string{} // the definition in the first source
	var conflicting []string
	for _, source := range sources {
		for _, v := range source.Variables {
			text := meaning(v)
			merged := byName[v.Name]
			if merged == nil {
				merged = &clusterv1.ClusterClassStatusVariable{Name: v.Name, DefinitionsConflict: new(false)}
				byName[v.Name], first[v.Name] = merged, text
			}
			merged.Definitions = append(merged.Definitions, clusterv1.ClusterClassStatusVariableDefinition{
				From: source.From, Required: v.Required, DeprecatedV1Beta1Metadata: v.DeprecatedV1Beta1Metadata, Schema: v.Schema,
			})
			if text != first[v.Name] && !*merged.DefinitionsConflict {
				*merged.DefinitionsConflict = true
				conflicting = append(conflicting, v.Name)
			}
		}
	}
	if len(byName) > maxVariables {
		return was, fmt.Errorf("class and extensions define %d variables together, and %d is the most", len(byName), maxVariables)
	}
	out := make([]clusterv1.ClusterClassStatusVariable, 0, len(byName))
	for _, v := range byName {
		if len(v.Definitions) > maxSources {
			return was, fmt.Errorf("variable %q is defined by %d sources, and %d is the most", v.Name, len(v.Definitions), maxSources)
		}
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b clusterv1.ClusterClassStatusVariable) int { return strings.Compare(a.Name, b.Name) })
	if len(conflicting) > 0 {
		slices.Sort(conflicting)
		return out, fmt.Errorf("the following variables have conflicting schemas: %s", strings.Join(conflicting, ","))
	}
	return out, nil
}

// meaning is equal for equivalent definitions.
func meaning(v clusterv1.ClusterClassVariable) string {
	required := v.Required != nil && *v.Required
	return fmt.Sprint(required, canonical(v.DeprecatedV1Beta1Metadata), canonical(normal(v.Schema.OpenAPIV3Schema)))
}

// Visible are the values that a patch can see: those of variables that the class or the
// patch itself defines.
func Visible(status []clusterv1.ClusterClassStatusVariable, patch string, values []clusterv1.ClusterVariable) []clusterv1.ClusterVariable {
	return slices.DeleteFunc(slices.Clone(values), func(v clusterv1.ClusterVariable) bool {
		i := slices.IndexFunc(status, func(s clusterv1.ClusterClassStatusVariable) bool { return s.Name == v.Name })
		return i < 0 || !slices.ContainsFunc(status[i].Definitions, func(d clusterv1.ClusterClassStatusVariableDefinition) bool {
			return d.From == clusterv1.VariableDefinitionFromInline || d.From == patch
		})
	})
}
