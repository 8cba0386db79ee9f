// SPDX-License-Identifier: Apache-2.0

package kubeadm_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1beta1 "github.com/capstan-dev/capstan/api/controlplane/v1beta1"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/conversion/kubeadm"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// through returns what is stored after a client has written an object at an old version
// as it read it there. Without the annotation, the client stored a manifest and applied
// that.
func through[T runtime.Object](t *testing.T, k rules.Kind, hub T, annotated bool) T {
	t.Helper()
	old, err := k.Down(hub, lookup)
	if err != nil {
		t.Fatal(err)
	}
	if !annotated {
		delete(old.(metav1.Object).GetAnnotations(), rules.DataAnnotation)
	}
	stored, err := k.Up(read(t, old, k.NewOld()))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, stored, k.NewHub()).(T)
}

func kindOf(t *testing.T, hub schema.GroupVersionKind) rules.Kind {
	t.Helper()
	all := kubeadm.Kinds()
	at := slices.IndexFunc(all, func(k rules.Kind) bool { return k.Hub == hub })
	if at < 0 {
		t.Fatalf("no conversion of %s", hub)
	}
	return all[at]
}

// timeoutsOfV1beta1 leaves those that v1beta1 has a word for: one of the control
// plane, which init and join have in common, and that of discovery.
func timeoutsOfV1beta1(s *bootstrapv1.KubeadmConfigSpec) {
	health, tls := s.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds, s.JoinConfiguration.Timeouts.TLSBootstrapSeconds
	s.InitConfiguration.Timeouts = bootstrapv1.Timeouts{ControlPlaneComponentHealthCheckSeconds: health}
	s.JoinConfiguration.Timeouts = bootstrapv1.Timeouts{ControlPlaneComponentHealthCheckSeconds: health, TLSBootstrapSeconds: tls}
}

// onceEach gives arguments unique names: of several with one name v1beta1 retains the
// last.
func onceEach(s *bootstrapv1.KubeadmConfigSpec) {
	for _, args := range argLists(s) {
		for i := range args {
			args[i].Name = fmt.Sprintf("%s-%d", args[i].Name, len(args)-i)
		}
	}
}

func argLists(s *bootstrapv1.KubeadmConfigSpec) [][]bootstrapv1.Arg {
	c := &s.ClusterConfiguration
	return [][]bootstrapv1.Arg{
		c.APIServer.ExtraArgs, c.ControllerManager.ExtraArgs, c.Scheduler.ExtraArgs, c.Etcd.Local.ExtraArgs,
		s.InitConfiguration.NodeRegistration.KubeletExtraArgs, s.JoinConfiguration.NodeRegistration.KubeletExtraArgs,
	}
}

// TestWriteOfOldVersionReplacesNoMachine writes control planes, and the configs of
// their machines, at v1beta1, which changes the form of the stored objects: the machines
// stay up to date.
func TestWriteOfOldVersionReplacesNoMachine(t *testing.T) {
	t.Parallel()
	planes, configs := kindOf(t, controlplanev1.GroupVersion().WithKind("KubeadmControlPlane")), kindOf(t, bootstrapv1.GroupVersion().WithKind("KubeadmConfig"))
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 2))
		kcp := read(t, hub(planes, filler{random: random}), planes.NewHub()).(*controlplanev1.KubeadmControlPlane)
		kcp.Spec.Rollout.Before, kcp.Spec.Rollout.After = controlplanev1.KubeadmControlPlaneRolloutBeforeSpec{}, metav1.Time{}
		onceEach(&kcp.Spec.KubeadmConfigSpec)
		annotated := random.IntN(2) == 0
		if !annotated {
			timeoutsOfV1beta1(&kcp.Spec.KubeadmConfigSpec)
		}
		made := map[string]bootstrapv1.KubeadmConfigSpec{"init": controlplane.ConfigSpec(kcp, true), "join": controlplane.ConfigSpec(kcp, false)}
		if !annotated {
			made["init of v1beta1"], made["join of v1beta1"] = madeAtV1beta1(t, planes, configs, kcp)
		}
		for name, spec := range made {
			m := &controlplane.Machine{Machine: &clusterv1.Machine{}, Config: &bootstrapv1.KubeadmConfig{Spec: spec}}
			m.Spec.Version = kcp.Spec.Version
			if strings.HasPrefix(name, "join") {
				m.Config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = "t"
			}
			m.Config = read(t, m.Config, &bootstrapv1.KubeadmConfig{}).(*bootstrapv1.KubeadmConfig)
			wanted := kcp
			for write := range 4 {
				if v := controlplane.Compare(wanted, m, time.Time{}); !v.UpToDate {
					t.Fatalf("seed %d, %s, annotation %v: after %d writes: %v (-wanted +has)\n%s", seed, name, annotated, write, v.Why, cmp.Diff(encoded(t, wanted.Spec.KubeadmConfigSpec), encoded(t, m.Config.Spec)))
				}
				if random.IntN(2) == 0 {
					wanted = through(t, planes, wanted, annotated)
				} else {
					m.Config = through(t, configs, m.Config, annotated)
				}
			}
		}
	}
}

// madeAtV1beta1 are the configs of the machines of a control plane as releases made
// them that stored v1beta1.
func madeAtV1beta1(t *testing.T, planes, configs rules.Kind, kcp *controlplanev1.KubeadmControlPlane) (init, join bootstrapv1.KubeadmConfigSpec) {
	t.Helper()
	old, err := planes.Down(kcp, lookup)
	if err != nil {
		t.Fatal(err)
	}
	up := func(without func(*bootstrapv1beta1.KubeadmConfigSpec)) bootstrapv1.KubeadmConfigSpec {
		config := &bootstrapv1beta1.KubeadmConfig{Spec: *old.(*controlplanev1beta1.KubeadmControlPlane).Spec.KubeadmConfigSpec.DeepCopy()}
		without(&config.Spec)
		stored, err := configs.Up(read(t, config, configs.NewOld()))
		if err != nil {
			t.Fatal(err)
		}
		return stored.(*bootstrapv1.KubeadmConfig).Spec
	}
	return up(func(s *bootstrapv1beta1.KubeadmConfigSpec) { s.JoinConfiguration = nil }), up(func(s *bootstrapv1beta1.KubeadmConfigSpec) { s.InitConfiguration = nil })
}
