// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"errors"
	"strings"
)

// errPanic is the result of upstream where a list in the annotation is shorter than that
// of the object; our functions use the elements that exist.
var errPanic = errors.New("panic")

// refusesDuplicates reports whether upstream refuses an object because two
// variables in it have one name; we convert each.
func refusesDuplicates(err error) bool {
	return err != nil && strings.HasSuffix(err.Error(), "not found in source data")
}

// refusesNoToken reports whether upstream refuses an object for a bootstrap token that is
// empty or null, which is how it represents a missing one; our functions treat it as
// missing.
func refusesNoToken(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), `the bootstrap token "" `) || strings.HasPrefix(err.Error(), `the bootstrap token "null" `))
}

// deviations are the differences between our results and upstream's. Each levels the
// results for a source: it copies the value from ours into theirs where it applies, and
// nowhere else.
var deviations = []func(source, theirs, ours map[string]any){sameNames, samePaths, healthChecks, layouts}

// level makes the elements of a list in theirs equal to those in ours, or a field of
// them, where several in one of lists have the same value at key.
func level(theirs, ours []any, key, field string, lists ...[]any) {
	several := map[any]bool{}
	for _, list := range lists {
		seen := map[any]bool{}
		for _, e := range list {
			name := value(e, key)
			if text, ok := name.(string); name == nil || ok && text == "" {
				name = nil // both are the same in a struct
			}
			several[name] = several[name] || seen[name]
			seen[name] = true
		}
	}
	for i := range min(len(theirs), len(ours)) {
		if !several[value(ours[i], key)] {
			continue
		}
		if field == "" {
			theirs[i] = ours[i]
		} else {
			copyField(theirs[i], ours[i], field)
		}
	}
}

// copyField copies a field of one object into another, or deletes it there.
func copyField(to, from any, field string) {
	target, _ := to.(map[string]any)
	source, _ := from.(map[string]any)
	if v, ok := source[field]; ok {
		target[field] = v
	} else {
		delete(target, field)
	}
}

func list(obj any, path ...string) []any {
	all, _ := value(obj, path...).([]any)
	return all
}

// sameNames: where two patches or variables of a class have one name, upstream uses the
// booleans of one for the other; our functions retain those of each.
func sameNames(_, theirs, ours map[string]any) {
	each := func(theirs, ours any, key string, path ...string) {
		level(list(theirs, path...), list(ours, path...), key, "", list(ours, path...))
	}
	each(theirs, ours, "name", "spec", "patches")
	each(theirs, ours, "name", "spec", "variables")
	each(theirs, ours, "name", "status", "variables")
	theirVariables, ourVariables := list(theirs, "status", "variables"), list(ours, "status", "variables")
	for i := range min(len(theirVariables), len(ourVariables)) {
		each(theirVariables[i], ourVariables[i], "from", "definitions")
	}
}

// configOf is the config of kubeadm in any kind that has one, nil in others.
func configOf(obj any) any {
	spec := value(obj, "spec")
	if t := value(spec, "template", "spec"); t != nil {
		spec = t
	}
	if of := value(spec, "kubeadmConfigSpec"); of != nil {
		return of
	}
	return spec
}

// samePaths: where two volumes or files have one path, upstream uses a false of one for
// all; our functions use that of the element at the same position.
func samePaths(source, theirs, ours map[string]any) {
	each := func(key, field string, path ...string) {
		level(list(configOf(theirs), path...), list(configOf(ours), path...), key, field, list(configOf(ours), path...), list(configOf(kept(source)), path...))
	}
	for _, component := range []string{"apiServer", "controllerManager", "scheduler"} {
		each("hostPath", "readOnly", "clusterConfiguration", component, "extraVolumes")
	}
	each("path", "append", "files")
}

// healthChecks: an old client that sets a timeout of discovery, and none for the control
// plane, makes upstream lose the health check of kubeadm join; our functions retain that
// of the annotation.
func healthChecks(source, theirs, ours map[string]any) {
	old := configOf(source)
	if value(old, "joinConfiguration", "discovery", "timeout") == nil || value(old, "clusterConfiguration", "apiServer", "timeoutForControlPlane") != nil {
		return
	}
	const field = "controlPlaneComponentHealthCheckSeconds"
	if value(configOf(kept(source)), "joinConfiguration", "timeouts", field) != nil {
		copyField(value(configOf(theirs), "joinConfiguration", "timeouts"), value(configOf(ours), "joinConfiguration", "timeouts"), field)
	}
}

// layouts: of layout and diskLayout v1beta2 accepts one. Where an old client lists
// partitions and has no layout, upstream stores both; our functions store what the client
// specified.
func layouts(source, theirs, ours map[string]any) {
	partitions := []string{"diskSetup", "partitions"}
	for i, p := range list(configOf(source), partitions...) {
		layout, _ := value(p, "layout").(bool)
		if all := list(configOf(theirs), partitions...); i < len(all) && !layout && len(list(p, "diskLayout")) > 0 {
			copyField(all[i], list(configOf(ours), partitions...)[i], "layout")
		}
	}
}
