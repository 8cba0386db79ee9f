// SPDX-License-Identifier: Apache-2.0

// Package buildinfo reports the version of a program. It reads what the Go linker
// recorded: nothing has to be stamped, and nothing can be stamped wrongly.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/blang/semver/v4"
)

// Info is what version -o json prints: a contract.
type Info struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"`
	CommitDate string `json:"commitDate,omitempty"`
	Dirty      bool   `json:"dirty,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Contract   string `json:"contract"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	// Clusterctl has the same in the form of clusterctl.
	Clusterctl Clusterctl `json:"clusterctl"`
}

// Clusterctl is the version as scripts of clusterctl read it.
type Clusterctl struct {
	Major        string `json:"major,omitempty"`
	Minor        string `json:"minor,omitempty"`
	GitVersion   string `json:"gitVersion"`
	GitCommit    string `json:"gitCommit,omitempty"`
	GitTreeState string `json:"gitTreeState,omitempty"`
	BuildDate    string `json:"buildDate,omitempty"`
	GoVersion    string `json:"goVersion"`
	Compiler     string `json:"compiler"`
	Platform     string `json:"platform"`
}

// Read returns what the linker recorded in this program.
func Read() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(info)
}

func of(info *debug.BuildInfo) Info {
	v := Info{Version: "(devel)", Contract: "v1beta2", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	state := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.CommitDate = s.Value
		case "vcs.modified":
			v.Dirty, state = s.Value == "true", "clean"
		}
	}
	if v.Dirty {
		state = "dirty"
	}
	for _, m := range info.Deps {
		// The program that links no API server still uses the API of one of this
		// minor.
		if m.Path == "k8s.io/kubernetes" || m.Path == "k8s.io/client-go" && v.Kubernetes == "" {
			v.Kubernetes = strings.Replace(m.Version, "v0.", "v1.", 1)
		}
	}
	major, minor := split(v.Version)
	v.Clusterctl = Clusterctl{Major: major, Minor: minor, GitVersion: v.Version, GitCommit: v.Commit, GitTreeState: state, BuildDate: v.CommitDate, GoVersion: v.Go, Compiler: runtime.Compiler, Platform: v.Platform}
	return v
}

// Older reports whether one version is older than another one. Those that are none,
// as of a program in the making, are neither.
func Older(one, other string) bool {
	a, err1 := semver.ParseTolerant(one)
	b, err2 := semver.ParseTolerant(other)
	return err1 == nil && err2 == nil && a.LT(b)
}

// split returns the first two numbers of a version, empty if it has none.
func split(version string) (major, minor string) {
	numbers, ok := strings.CutPrefix(version, "v")
	parts := strings.SplitN(numbers, ".", 3)
	if !ok || len(parts) < 3 {
		return "", ""
	}
	return parts[0], parts[1]
}

// Line is the version of the program called name, for people.
func (v Info) Line(name string) string {
	parts := []string{name + " version " + v.Version}
	if v.Commit != "" {
		parts = append(parts, "commit "+v.Commit)
	}
	if v.Kubernetes != "" {
		parts = append(parts, "Kubernetes "+v.Kubernetes)
	}
	return fmt.Sprintf("%s, contract %s, %s, %s", strings.Join(parts, ", "), v.Contract, v.Go, v.Platform)
}
