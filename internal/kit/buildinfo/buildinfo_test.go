// SPDX-License-Identifier: Apache-2.0

package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheVersionIsWhatTheLinkerRecorded(t *testing.T) {
	t.Parallel()
	platform, settings := runtime.GOOS+"/"+runtime.GOARCH, func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: modified}}
	}
	tests := map[string]struct {
		recorded debug.BuildInfo
		want     Info
		line     string
	}{
		"nothing": {
			want: Info{Version: "(devel)", Clusterctl: Clusterctl{GitVersion: "(devel)"}},
			line: "p version (devel), contract v1beta2, ",
		},
		"a release with a plane": {
			recorded: debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: settings("false"), Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.36.3"}, {Path: "k8s.io/kubernetes", Version: "v1.36.3"}}},
			want: Info{Version: "v1.2.3", Commit: "abc", CommitDate: "2026-01-02T03:04:05Z", Kubernetes: "v1.36.3",
				Clusterctl: Clusterctl{Major: "1", Minor: "2", GitVersion: "v1.2.3", GitCommit: "abc", GitTreeState: "clean", BuildDate: "2026-01-02T03:04:05Z"}},
			line: "p version v1.2.3, commit abc, Kubernetes v1.36.3, contract v1beta2, ",
		},
		"changed, without a plane": {
			recorded: debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20260102030405-abc+dirty"}, Settings: settings("true"), Deps: []*debug.Module{{Path: "k8s.io/client-go", Version: "v0.36.3"}}},
			want: Info{Version: "v0.0.0-20260102030405-abc+dirty", Commit: "abc", CommitDate: "2026-01-02T03:04:05Z", Dirty: true, Kubernetes: "v1.36.3",
				Clusterctl: Clusterctl{Major: "0", Minor: "0", GitVersion: "v0.0.0-20260102030405-abc+dirty", GitCommit: "abc", GitTreeState: "dirty", BuildDate: "2026-01-02T03:04:05Z"}},
			line: "p version v0.0.0-20260102030405-abc+dirty, commit abc, Kubernetes v1.36.3, contract v1beta2, ",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := tc.want
			want.Contract, want.Go, want.Platform = "v1beta2", runtime.Version(), platform
			want.Clusterctl.GoVersion, want.Clusterctl.Compiler, want.Clusterctl.Platform = runtime.Version(), runtime.Compiler, platform
			got := of(&tc.recorded)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if line := tc.line + runtime.Version() + ", " + platform; got.Line("p") != line {
				t.Errorf("got %q, want %q", got.Line("p"), line)
			}
		})
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		one, other string
		want       bool
	}{
		"a patch":                    {"v1.2.3", "v1.2.4", true},
		"by number, not by letter":   {"v1.9.0", "v1.10.0", true},
		"the same":                   {"v1.2.3", "v1.2.3", false},
		"a newer one":                {"v1.3.0", "v1.2.9", false},
		"a candidate":                {"v1.3.0-rc.1", "v1.3.0", true},
		"two builds of what is next": {"v1.3.1-0.20260101000000-aaaaaaaaaaaa", "v1.3.1-0.20260102000000-bbbbbbbbbbbb+dirty", true},
		"one in the making":          {"(devel)", "v1.2.3", false},
		"than one in the making":     {"v1.2.3", "(devel)", false},
		"nothing":                    {"", "", false},
	}
	for name, tc := range tests {
		if got := Older(tc.one, tc.other); got != tc.want {
			t.Errorf("%s: %s is older than %s: %t, want %t", name, tc.one, tc.other, got, tc.want)
		}
	}
}
