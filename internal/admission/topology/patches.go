// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// classPatches requires that each patch can be applied to a Cluster of the class.
func classPatches(at *field.Path, class *clusterv1.ClusterClass) (errs field.ErrorList) {
	seen, budget := map[string]bool{}, gotemplate.PerObject
	for i := range class.Spec.Patches {
		p, here := &class.Spec.Patches[i], at.Key(class.Spec.Patches[i].Name)
		switch {
		case p.Name == "":
			errs = append(errs, field.Required(at.Index(i).Child("name"), "a patch needs a name"))
		case p.Name == clusterv1.VariableDefinitionFromInline:
			errs = append(errs, field.Invalid(at.Index(i).Child("name"), p.Name, fmt.Sprintf("%q is what variables of the class itself are from; choose another name", p.Name)))
		case seen[p.Name]:
			errs = append(errs, field.Duplicate(at.Index(i).Child("name"), p.Name))
		}
		seen[p.Name] = true
		if p.EnabledIf != "" {
			errs = append(errs, goTemplate(here.Child("enabledIf"), p.EnabledIf, &budget)...)
		}
		switch x := p.External; {
		case x != nil && len(p.Definitions) > 0:
			errs = append(errs, field.Forbidden(here.Child("external"), "excludes definitions: make two patches of them"))
		case x == nil && len(p.Definitions) == 0:
			errs = append(errs, field.Required(here, "set definitions, or external"))
		case x != nil && x.GeneratePatchesExtension == "" && x.ValidateTopologyExtension == "" && x.DiscoverVariablesExtension == "":
			errs = append(errs, field.Required(here.Child("external"), "set generatePatchesExtension, validateTopologyExtension or discoverVariablesExtension to the handler of an extension"))
		}
		for j := range p.Definitions {
			d := &p.Definitions[j]
			errs = append(errs, selector(here.Child("definitions").Index(j).Child("selector"), d.Selector, class)...)
			for k, op := range d.JSONPatches {
				errs = append(errs, jsonPatch(here.Child("definitions").Index(j).Child("jsonPatches").Index(k), op, class.Spec.Variables, &budget)...)
			}
		}
	}
	return errs
}

// goTemplate requires a Go template that calls only existing functions. It is
// rendered without variables, which shows only whether the template exceeds the
// budget with any values.
func goTemplate(at *field.Path, text string, b *gotemplate.Budget) field.ErrorList {
	t, err := gotemplate.Parse(text)
	if err == nil {
		if *b <= 0 { // a template before this one used it up, and is named
			return nil
		}
		if _, err = t.Render(nil, b); !errors.Is(err, gotemplate.ErrCost) && !errors.Is(err, gotemplate.ErrOutput) {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(at, text, err.Error())}
}

// selector requires that a selector selects templates to which the class refers.
func selector(at *field.Path, s clusterv1.PatchSelector, class *clusterv1.ClusterClass) (errs field.ErrorList) {
	match := at.Child("matchResources")
	is := func(refs ...clusterv1.ClusterClassTemplateReference) bool {
		return slices.ContainsFunc(refs, func(r clusterv1.ClusterClassTemplateReference) bool {
			return r.APIVersion == s.APIVersion && r.Kind == s.Kind
		})
	}
	unlike := fmt.Sprintf("there is no %s of %s there: correct apiVersion and kind, or what is matched", s.Kind, s.APIVersion)
	m, some := s.MatchResources, false
	if on(m.InfrastructureCluster) {
		some = true
		if !is(class.Spec.Infrastructure.TemplateRef) {
			errs = append(errs, field.Invalid(match.Child("infrastructureCluster"), true, unlike))
		}
	}
	if on(m.ControlPlane) {
		some = true
		if !is(class.Spec.ControlPlane.TemplateRef, class.Spec.ControlPlane.MachineInfrastructure.TemplateRef) {
			errs = append(errs, field.Invalid(match.Child("controlPlane"), true, unlike))
		}
	}
	if m.MachineDeploymentClass != nil {
		some = true
		classes := map[string]bool{}
		for _, md := range class.Spec.Workers.MachineDeployments {
			classes[md.Class] = classes[md.Class] || is(md.Bootstrap.TemplateRef, md.Infrastructure.TemplateRef)
		}
		errs = append(errs, classNames(match.Child("machineDeploymentClass", "names"), m.MachineDeploymentClass.Names, classes, unlike)...)
	}
	if m.MachinePoolClass != nil {
		some = true
		classes := map[string]bool{}
		for _, mp := range class.Spec.Workers.MachinePools {
			classes[mp.Class] = classes[mp.Class] || is(mp.Bootstrap.TemplateRef, mp.Infrastructure.TemplateRef)
		}
		errs = append(errs, classNames(match.Child("machinePoolClass", "names"), m.MachinePoolClass.Names, classes, unlike)...)
	}
	if !some {
		errs = append(errs, field.Required(match, "pick something: controlPlane, infrastructureCluster, machineDeploymentClass or machinePoolClass"))
	}
	return errs
}

// classNames requires that each name matches a worker class, and at least one of
// them a class of the selected kind. classes maps each class name to whether the
// class has that kind.
func classNames(at *field.Path, names []string, classes map[string]bool, unlike string) (errs field.ErrorList) {
	if len(names) == 0 {
		errs = append(errs, field.Required(at, "name the classes; * means all"))
	}
	for i, name := range names {
		if inner := strings.Trim(name, "*"); strings.Contains(inner, "*") || len(name)-len(inner) > 1 {
			errs = append(errs, field.Invalid(at.Index(i), name, "may have one *, at its beginning or at its end"))
			continue
		}
		found, like := false, false
		for class, is := range classes {
			if patches.Matches(name, class) {
				found, like = true, like || is
			}
		}
		switch {
		case !found:
			errs = append(errs, field.Invalid(at.Index(i), name, "matches no class of the ClusterClass"))
		case !like:
			errs = append(errs, field.Invalid(at.Index(i), name, unlike))
		}
	}
	return errs
}

// jsonPatch requires that a change has a valid path and value.
func jsonPatch(at *field.Path, p clusterv1.JSONPatch, known []clusterv1.ClusterClassVariable, b *gotemplate.Budget) (errs field.ErrorList) {
	if p.Path != "/spec" && !strings.HasPrefix(p.Path, "/spec/") {
		errs = append(errs, field.Invalid(at.Child("path"), p.Path, "must start with /spec: nothing else of a template is patched"))
	}
	errs = append(errs, elements(at.Child("path"), p)...)
	switch {
	case p.Op == "remove":
		if p.Value != nil || p.ValueFrom != nil {
			errs = append(errs, field.Forbidden(at, "what is removed has neither value nor valueFrom"))
		}
		return errs
	case p.Op != "add" && p.Op != "replace":
		return append(errs, field.NotSupported(at.Child("op"), p.Op, []string{"add", "replace", "remove"}))
	case (p.Value == nil) == (p.ValueFrom == nil):
		return append(errs, field.Invalid(at, p.Path, "set either value or valueFrom"))
	case p.Value != nil:
		return errs
	}
	from, source := at.Child("valueFrom"), p.ValueFrom
	switch {
	case (source.Variable == "") == (source.Template == ""):
		errs = append(errs, field.Invalid(from, p.Path, "set either variable or template"))
	case source.Template != "":
		errs = append(errs, goTemplate(from.Child("template"), source.Template, b)...)
	case !readable(source.Variable, known):
		errs = append(errs, field.Invalid(from.Child("variable"), source.Variable, "there is no such variable: define it in spec.variables, or use one that is built in"))
	}
	return errs
}

// elements requires that list items are only inserted at the start or appended: the
// meaning of any other index depends on the Cluster.
func elements(at *field.Path, p clusterv1.JSONPatch) field.ErrorList {
	for element := range strings.SplitSeq(strings.TrimPrefix(p.Path, "/"), "/") {
		_, err := strconv.Atoi(element)
		switch index := err == nil || element == "-"; {
		case !index:
		case p.Op != "add":
			return field.ErrorList{field.Invalid(at, p.Path, "must not name an item of a list: only add can, at its beginning (0) or end (-)")}
		case element != "0" && element != "-":
			return field.ErrorList{field.Invalid(at, p.Path, "can add to a list only at its beginning (0) or end (-)")}
		}
	}
	return nil
}

// readable reports whether a variable exists. Its fields depend on the value; the
// fields of builtin variables are fixed.
func readable(path string, known []clusterv1.ClusterClassVariable) bool {
	name := path
	if end := strings.IndexAny(path, ".["); end >= 0 {
		name = path[:end]
	}
	if name != variables.Builtin {
		return slices.ContainsFunc(known, func(v clusterv1.ClusterClassVariable) bool { return v.Name == name })
	}
	return within(reflect.TypeFor[hooksv1.Builtins](), strings.TrimPrefix(path, name))
}

// within reports whether a path such as .a.b[0] exists in values of a type.
func within(t reflect.Type, path string) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if path == "" || t.Kind() == reflect.Map {
		return true
	}
	if t.Kind() == reflect.Slice {
		index, rest, ok := strings.Cut(path, "]")
		n, err := strconv.Atoi(strings.TrimPrefix(index, "["))
		return ok && strings.HasPrefix(index, "[") && err == nil && n >= 0 && within(t.Elem(), rest)
	}
	if t.Kind() != reflect.Struct || path[0] != '.' {
		return false
	}
	name, rest := path[1:], ""
	if end := strings.IndexAny(name, ".["); end >= 0 {
		name, rest = name[:end], name[end:]
	}
	for f := range t.Fields() {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && name != "" {
			return within(f.Type, rest)
		}
	}
	return false
}
