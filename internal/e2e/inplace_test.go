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
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
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
	c.Spec.Settings = map[string]string{"updateSeconds": "3"}
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
// extension is registered: each keeps its machines, no other is created, and a plan that
// asks the extension predicts that.
func TestMachinesAreUpdatedInPlace(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	sample(f)
	pool, err := transport.New(transport.Options{})
	f.must(err)
	t.Cleanup(pool.Close)
	p := &planned{fleet: f, name: "c", extensions: pool}
	p.connect()
	f.create("c", shape{controlPlane: 3, workers: 2, version: "v1.36.3"})
	p.steady(true)
	before := f.uids("c", every)

	var old bootstrapv1.KubeadmConfigTemplate
	f.must(f.Client.Get(t.Context(), f.key("c-workers"), &old))
	next := &bootstrapv1.KubeadmConfigTemplate{Spec: *old.Spec.DeepCopy()}
	next.Namespace, next.Name = f.Namespace, "c-workers-2"
	next.Spec.Template.Spec.Files = []bootstrapv1.File{{Path: "/etc/motd", Content: "in place"}}
	f.must(f.Client.Create(t.Context(), next))
	p.comesTrue("version and files of the control plane", p.change(step{apiVersion: kubeadmVersion, kind: "KubeadmControlPlane", object: "c-control-plane", patch: `{"spec": {
		"version": "v1.36.4", "rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0}}},
		"kubeadmConfigSpec": {"files": [{"path": "/etc/motd", "content": "in place"}]}}}`}))
	f.eventually(func() error { return f.updated("c", controlPlane, "v1.36.4", before) })
	p.comesTrue("version and files of the workers", p.change(step{apiVersion: coreVersion, kind: "MachineDeployment", object: "c-workers", patch: `{"spec": {
		"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
		"template": {"spec": {"version": "v1.36.4", "bootstrap": {"configRef": {"name": "c-workers-2"}}}}}}`}))
	f.eventually(func() error { return f.updated("c", every, "v1.36.4", before) })
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
