// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func noSurge(f *Facts) {
	f.ControlPlane.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
}

func TestPlan(t *testing.T) {
	t.Parallel()
	type change = func(*Facts)
	replacing := func(f *Facts) {
		f.ControlPlane.Annotations = map[string]string{controlplanev1.RemediationInProgressAnnotation: "{}"}
	}
	tests := map[string]struct {
		replicas int32
		machines string
		change   change
		want     string
		blocked  []string
	}{
		"the first":                                             {1, "", uninitialized, "create the first machine: have 0, want 1", nil},
		"the first needs certificates":                          {1, "", func(f *Facts) { uninitialized(f); f.Certificates.Err = errors.New("no CA") }, "create the first machine: have 0, want 1", []string{"the certificates are not available: no CA"}},
		"the first needs a template":                            {1, "", func(f *Facts) { uninitialized(f); f.Template = "there is no template" }, "create the first machine: have 0, want 1", []string{"there is no template"}},
		"one that joins needs certificates":                     {3, "a", func(f *Facts) { f.Certificates.Err = errors.New("no CA") }, "create a machine that joins: have 1, want 3", []string{"the certificates are not available: no CA"}},
		"one to delete needs no template":                       {1, "a,b", func(f *Facts) { f.Template = "there is no template" }, "delete a: have 2, want 1", nil},
		"it joins in a failure domain":                          {3, "a in=x", func(f *Facts) { f.Cluster.Status.FailureDomains = domains("x", "y") }, "create a machine that joins in failure domain y: have 1, want 3", nil},
		"no deletion next to one without a member":              {1, "a marked,b nomember,c", nil, "delete a: have 3, want 1", []string{"waiting for Machine b to report EtcdMemberHealthy"}},
		"all gone after init":                                   {1, "", nil, "create a machine that joins: have 0, want 1", nil},
		"none wanted":                                           {0, "", nil, "", nil},
		"enough":                                                {3, "a,b,c", nil, "", nil},
		"replicas not set":                                      {1, "a", func(f *Facts) { f.ControlPlane.Spec.Replicas = nil }, "", nil},
		"another joins":                                         {3, "a", nil, "create a machine that joins: have 1, want 3", nil},
		"no join before init":                                   {3, "a bare", uninitialized, "create a machine that joins: have 1, want 3", []string{"waiting for the control plane to be initialized"}},
		"no join next to one that starts":                       {3, "a,b bare", nil, "create a machine that joins: have 2, want 3", []string{"waiting for Machine b to have a Node"}},
		"no join next to an unhealthy one":                      {3, "a,b failing", nil, "create a machine that joins: have 2, want 3", []string{"waiting for Machine b to report APIServerPodHealthy"}},
		"no join next to one being deleted":                     {3, "a,b going", nil, "create a machine that joins: have 2, want 3", []string{"waiting for Machine b to be deleted"}},
		"no join without a connection":                          {3, "a", func(f *Facts) { f.Workload.Connected = false }, "create a machine that joins: have 1, want 3", []string{"waiting for a connection to the workload cluster"}},
		"a replacement joins next to one that must be replaced": {5, "a,b failing unhealthy,c,d bare unhealthy", replacing, "create a machine that joins: have 4, want 5", nil},
		"a replacement joins next to unhealthy ones":            {5, "a,b failing,c,d failing unhealthy", replacing, "create a machine that joins: have 4, want 5", nil},
		"a replacement joins while etcd keeps its quorum":       {5, "a,b nomember,c,d", replacing, "create a machine that joins: have 4, want 5", nil},
		"a replacement does not join where etcd could lose it": {3, "a,b nomember", replacing,
			"create a machine that joins: have 2, want 3", []string{"waiting for etcd, which could lose its quorum: etcd would have 1 healthy of 3 members and needs 2"}},
		"a replacement does not join where etcd is not known": {3, "a,b nomember", func(f *Facts) { replacing(f); f.Etcd.Err = errors.New("no answer") },
			"create a machine that joins: have 2, want 3", []string{"waiting for the etcd members to be known: no answer"}},
		"a replacement does not join where no machine serves": {3, "a failing,b failing", replacing,
			"create a machine that joins: have 2, want 3", []string{"waiting for a Machine with healthy control plane components"}},
		"a replacement does not join next to one that starts": {3, "a,b bare", replacing,
			"create a machine that joins: have 2, want 3", []string{"waiting for Machine b to have a Node"}},
		"a replacement does not join unseen": {3, "a,b failing unhealthy", func(f *Facts) { replacing(f); f.Workload.Connected = false },
			"create a machine that joins: have 2, want 3", []string{"waiting for a connection to the workload cluster"}},
		"no other joins next to one that must be replaced": {3, "a,b failing unhealthy", nil,
			"create a machine that joins: have 2, want 3", []string{"waiting for Machine b to report APIServerPodHealthy"}},
		"no deletion for that": {3, "a,b failing unhealthy,c,d", replacing,
			"delete a: have 4, want 3", []string{"waiting for Machine b to report APIServerPodHealthy"}},
		"a version is on its way": {3, "a", func(f *Facts) { f.Cluster.Spec.Topology.Version = "v1.36.0" }, "create a machine that joins: have 1, want 3", []string{"waiting for a version upgrade to v1.36.0 to be propagated from the Cluster topology"}},
		"a step of an upgrade has come": {3, "a", func(f *Facts) {
			f.Cluster.Spec.Topology.Version = "v9.9.9"
			f.Cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeStepAnnotation: f.ControlPlane.Spec.Version}
		}, "create a machine that joins: have 1, want 3", nil},
		"external etcd has no members": {3, "a nomember", func(f *Facts) {
			f.ControlPlane.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"x"}
		}, "create a machine that joins: have 1, want 3", nil},
		"one too many":                                     {1, "a,b,c", nil, "delete a: have 3, want 1", nil},
		"the one to delete may be unhealthy":               {1, "a,b marked failing,c", nil, "delete b: have 3, want 1", nil},
		"the others must not be":                           {1, "a,b failing,c", nil, "delete a: have 3, want 1", []string{"waiting for Machine b to report APIServerPodHealthy"}},
		"a rollout makes a new one first":                  {3, "a old,b old,c old", nil, "create a machine that joins: 3 of 3 are not up to date", nil},
		"then an old one goes":                             {3, "a old,b old,c old,d", nil, "delete a: 3 of 4 are not up to date", nil},
		"a rollout without surge":                          {3, "a old,b,c", noSurge, "delete a: 1 of 3 are not up to date", nil},
		"without surge the gap is filled":                  {3, "b old,c", noSurge, "create a machine that joins: 1 of 2 are not up to date", nil},
		"a rollout waits for the deletion that it started": {3, "a old going,b old,c old,d", nil, "delete b: 2 of 4 are not up to date", []string{"waiting for Machine a to be deleted"}},
		"all are on their way":                             {1, "a going,b going", nil, "", nil},
		"one that goes is not replaced twice":              {3, "a old going,b,c", nil, "", nil},
		"a rollout and a smaller number":                   {1, "a old,b,c", nil, "delete a: 1 of 3 are not up to date", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(tc.replicas, tc.machines)
			if tc.change != nil {
				tc.change(&f)
			}
			action, blocked := Plan(f)
			got := ""
			if action != nil {
				got = action.String()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if diff := cmp.Diff(tc.blocked, blocked); diff != "" {
				t.Errorf("objections (-want +got)\n%s", diff)
			}
		})
	}
}

func TestFailureDomain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		domains  []clusterv1.FailureDomain
		machines string
		want     string
	}{
		"there are none":                 {nil, "a", ""},
		"none for control planes":        {domains("x-worker"), "a", ""},
		"the empty one":                  {domains("x", "y"), "a in=x", "y"},
		"the first by name":              {domains("y", "x"), "", "x"},
		"old machines count less":        {domains("x", "y"), "a in=x old,b in=y", "x"},
		"those that go do not count":     {domains("x", "y"), "a in=x,b in=y going", "y"},
		"of equals, that with fewer old": {domains("x", "y"), "a in=x old,b in=x old,c in=y old", "y"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := FailureDomain(tc.domains, machines(tc.machines)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestLeaver(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		domains  []clusterv1.FailureDomain
		machines string
		want     string
	}{
		"the oldest":                           {nil, "b,a,c", "a"},
		"an outdated one":                      {nil, "a,b old,c", "b"},
		"an outdated one that is unhealthy":    {nil, "a old,b old failing,c", "b"},
		"a marked one":                         {nil, "a old failing,b,c marked", "c"},
		"a marked one that is outdated":        {nil, "a marked,b old marked,c old", "b"},
		"in the fullest domain":                {domains("x", "y"), "a in=x,b in=y,c in=y", "b"},
		"in a domain that is none any more":    {domains("x"), "a in=x,b in=x,c in=gone", "c"},
		"the group goes before the domain":     {domains("x", "y"), "a in=x old,b in=y,c in=y", "a"},
		"in the domain with most of the group": {domains("x", "y"), "a in=x old,b in=x old,c in=y old,d in=y,e in=y", "a"},
		"of equals, in that with most at all":  {domains("x", "y"), "a in=x old,b in=y old,c in=y", "b"},
		"without domains they do not count":    {nil, "a in=x,b in=y,c in=y", "a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Leaver(tc.domains, machines(tc.machines), true); got.Name != tc.want {
				t.Errorf("got %s, want %s", got.Name, tc.want)
			}
		})
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ template, want, wantErr string }{
		"the usual form":        {"", "cp-x1y2z", ""},
		"a template":            {"{{ .cluster.name }}-m-{{ .random }}", "demo-m-x1y2z", ""},
		"too long":              {"{{ .kubeadmControlPlane.name }}-aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff-{{ .random }}", "cp-aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeefffffx1y2z", ""},
		"an unknown field":      {"{{ .machineSet.name }}-{{ .random }}", "", "fill spec.machineNaming.template"},
		"not a template":        {"{{", "", "read spec.machineNaming.template"},
		"no name for an object": {"A_{{ .random }}", "", `spec.machineNaming.template makes the name "A_x1y2z"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kcp := controlPlane(1, func(k *controlplanev1.KubeadmControlPlane) { k.Spec.MachineNaming.Template = tc.template })
			got, err := Name(kcp, "demo", "x1y2z")
			if got != tc.want || len(got) > 63 || (err == nil) != (tc.wantErr == "") || err != nil && !contains(err.Error(), tc.wantErr) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
