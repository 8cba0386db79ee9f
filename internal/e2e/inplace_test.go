// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// sample runs cmd/sample-extension and registers it for the test's namespace.
func sample(f fleet) {
	f.Helper()
	dir := f.TempDir()
	program, ca := testenv.Program(f, "sample-extension"), filepath.Join(dir, "ca.crt")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	address := free.Addr().String()
	f.must(free.Close())
	var log bytes.Buffer
	run := exec.Command(program, "--address", address, "--ca-out", ca)
	run.Stdout, run.Stderr = &log, &log
	f.must(run.Start())
	f.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		if f.Failed() {
			f.Logf("sample-extension:\n%s", log.String())
		}
	})
	var bundle []byte
	f.eventually(func() (err error) {
		bundle, err = os.ReadFile(ca)
		if err == nil && len(bundle) == 0 {
			err = fmt.Errorf("%s is empty", ca)
		}
		return err
	})
	c := &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace}}
	c.Spec.ClientConfig.URL, c.Spec.ClientConfig.CABundle = "https://"+address, bundle
	c.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": f.Namespace}}
	f.must(f.Client.Create(f.Context(), c))
	f.Cleanup(func() { _ = f.Client.Delete(context.Background(), c) })
	f.eventually(func() error {
		if err := f.Client.Get(f.Context(), client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		return isTrue("ExtensionConfig", c, runtimev1.ExtensionConfigDiscoveredCondition)
	})
}

// TestMachinesAreUpdatedInPlace changes workers and control plane while the sample
// extension is registered: each keeps its machines, and no other is created.
func TestMachinesAreUpdatedInPlace(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	sample(f)
	f.create("c", shape{controlPlane: 3, workers: 2, version: "v1.36.3"})
	f.becomes("c")
	before := f.uids("c", every)

	files := []bootstrapv1.File{{Path: "/etc/motd", Content: "in place"}}
	var old bootstrapv1.KubeadmConfigTemplate
	f.must(f.Client.Get(t.Context(), f.key("c-workers"), &old))
	next := &bootstrapv1.KubeadmConfigTemplate{Spec: *old.Spec.DeepCopy()}
	next.Namespace, next.Name, next.Spec.Template.Spec.Files = f.Namespace, "c-workers-2", files
	f.must(f.Client.Create(t.Context(), next))
	modify(f, "c-control-plane", &controlplanev1.KubeadmControlPlane{}, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		k.Spec.Version = "v1.36.4"
		k.Spec.KubeadmConfigSpec.Files = files
	})
	f.eventually(func() error { return f.updated("c", controlPlane, "v1.36.4", before) })
	modify(f, "c-workers", &clusterv1.MachineDeployment{}, func(d *clusterv1.MachineDeployment) {
		d.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		d.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
		d.Spec.Template.Spec.Bootstrap.ConfigRef.Name = next.Name
		d.Spec.Template.Spec.Version = "v1.36.4"
	})
	f.eventually(func() error { return f.updated("c", every, "v1.36.4", before) })
	f.eventually(func() error { return f.settled("c") })
	f.eventually(func() error {
		var sets clusterv1.MachineSetList
		if err := f.list("c", &sets); err != nil || len(sets.Items) != 1 {
			return fmt.Errorf("%d MachineSets, want the new one (%w)", len(sets.Items), err)
		}
		return nil
	})
}

// updated returns an error unless the machines are all as they should be, and still
// the same.
func (f fleet) updated(name string, of func(*clusterv1.Machine) bool, version string, uids []string) error {
	if diff := cmp.Diff(uids, f.uids(name, every)); diff != "" {
		f.Fatalf("Machines (-before +now):\n%s", diff)
	}
	machines, err := f.machines(name)
	if err != nil {
		return err
	}
	for i := range machines {
		m := &machines[i]
		if !of(m) {
			continue
		}
		var config bootstrapv1.KubeadmConfig
		if err := f.Client.Get(f.Context(), f.key(m.Name), &config); err != nil {
			return err
		}
		switch info := m.Status.NodeInfo; {
		case inplace.InProgress(m):
			return fmt.Errorf("Machine %s is being updated: %s", m.Name, conditions.Message(m, clusterv1.MachineUpdatingCondition)) // a kind's name
		case m.Spec.Version != version || info == nil || info.KubeletVersion != version:
			return fmt.Errorf("Machine %s is of version %s", m.Name, m.Spec.Version)
		case len(config.Spec.Files) != 1 || inplace.InProgress(&config):
			return fmt.Errorf("KubeadmConfig %s has files %v", m.Name, config.Spec.Files)
		}
		if err := isTrue("Machine "+m.Name, m, clusterv1.MachineUpToDateCondition); err != nil {
			return err
		}
	}
	return nil
}
