// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// wrapper is a module that depends on the packages of another one, so that their
// programs can be built with the dependency versions that the other one selects.
type wrapper struct {
	module, version string
	packages        []string
	// gomod is the go.mod of the module.
	gomod string
	// staging is the version of the modules that it replaces by folders of its own
	// repository, which the proxy does not have; empty if there are none.
	staging string
}

var (
	replaced = regexp.MustCompile(`(?m)^\s*(?:replace\s+)?(\S+) => \./staging/`)
	goLine   = regexp.MustCompile(`(?m)^go (\S+)$`)
	// majorSuffix matches the end of a module's path from version 2 on.
	majorSuffix = regexp.MustCompile(`/v\d+$`)
	godebug     = regexp.MustCompile(`(?m)^godebug [^(\s].*$`)
)

// name returns the last significant part of the module's path.
func (w wrapper) name() string {
	return path.Base(majorSuffix.ReplaceAllString(w.module, ""))
}

// goMod returns the wrapper's go.mod.
func (w wrapper) goMod() (string, error) {
	version := goLine.FindStringSubmatch(w.gomod)
	if version == nil {
		return "", fmt.Errorf("go.mod of %s %s names no version of Go", w.module, w.version)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module capstan.invalid/node\n\ngo %s\n", version[1])
	for _, line := range godebug.FindAllString(w.gomod, -1) {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	fmt.Fprintf(&b, "\nrequire %s %s\n", w.module, w.version)
	for _, m := range replaced.FindAllStringSubmatch(w.gomod, -1) {
		if w.staging == "" {
			return "", fmt.Errorf("go.mod of %s %s replaces %s by a folder that is not published", w.module, w.version, m[1])
		}
		fmt.Fprintf(&b, "\nreplace %s => %s %s\n", m[1], m[1], w.staging)
	}
	return b.String(), nil
}

// imports returns a file that makes the programs dependencies. It is never
// compiled.
func (w wrapper) imports() string {
	packages := slices.Clone(w.packages)
	slices.Sort(packages)
	var b strings.Builder
	b.WriteString("//go:build tools\n\npackage node\n\nimport (\n")
	for _, p := range packages {
		fmt.Fprintf(&b, "\t_ %q\n", p)
	}
	b.WriteString(")\n")
	return b.String()
}

// stagingVersion is the version of Kubernetes' staging modules: v0.36.3 for
// v1.36.3.
func stagingVersion(kubernetes string) string {
	return "v0." + strings.TrimPrefix(kubernetes, "v1.")
}
