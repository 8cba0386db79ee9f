// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func machine(version, kubelet string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	m.Spec.Version = version
	if kubelet != "" {
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: kubelet}
	}
	return m
}

func TestADeploymentIsUpgradingWhileAMachineHasAnotherVersion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		machines []*clusterv1.Machine
		want     bool
		wantErr  string
	}{
		"no Machines":             {},
		"all of it":               {machines: []*clusterv1.Machine{machine("v1.34.0", "v1.34.0"), machine("v1.34.0", "v1.34.0")}},
		"one that comes":          {machines: []*clusterv1.Machine{machine("v1.34.0", "")}},
		"an old one":              {machines: []*clusterv1.Machine{machine("v1.34.0", "v1.34.0"), machine("v1.33.0", "v1.33.0")}, want: true},
		"an older kubelet":        {machines: []*clusterv1.Machine{machine("v1.34.0", "v1.33.0")}, want: true},
		"another build":           {machines: []*clusterv1.Machine{machine("v1.34.0+b", "v1.34.0+b")}, want: true},
		"one of no known version": {machines: []*clusterv1.Machine{machine("", "v1.34.0")}, wantErr: "Machine ns/m has no spec.version: set the one that it runs"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := DeploymentUpgrading(tc.machines, "v1.34.0")
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("%v, error %v, want %v, %q", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

// nodes are the workload clusters; the one that exists has Nodes with these kubelet
// versions.
type nodes struct {
	kubelets map[string]string
	err      error // of the connection
	broken   error // of reads
}

func (n nodes) Client(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	if n.err != nil || cluster != (client.ObjectKey{Namespace: "ns", Name: "c"}) {
		return nil, n.err
	}
	b := fake.NewClientBuilder()
	for name, version := range n.kubelets {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.NodeInfo.KubeletVersion = version
		b = b.WithObjects(node)
	}
	return b.WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
		return errors.Join(n.broken, c.Get(ctx, key, obj, o...))
	}}).Build(), nil
}

func TestPoolIsUpgradingWhileNodeHasAnotherVersion(t *testing.T) {
	t.Parallel()
	down := errors.New("the cache is closed")
	for name, tc := range map[string]struct {
		nodes   nodes
		refs    []string
		want    bool
		wantErr error
	}{
		"no Nodes, and no connection": {nodes: nodes{err: ErrNotConnected}},
		"all of it":                   {nodes: nodes{kubelets: map[string]string{"a": "v1.34.0", "b": "v1.34.0", "other": "v1.33.0"}}, refs: []string{"a", "b"}},
		"an older one":                {nodes: nodes{kubelets: map[string]string{"a": "v1.34.0", "b": "v1.33.0"}}, refs: []string{"a", "b"}, want: true},
		"one that has gone":           {nodes: nodes{kubelets: map[string]string{"a": "v1.34.0"}}, refs: []string{"a", "b"}, want: true},
		"not connected":               {nodes: nodes{err: ErrNotConnected}, refs: []string{"a"}, wantErr: ErrNotConnected},
		"not to be read":              {nodes: nodes{broken: down, kubelets: map[string]string{"a": "v1.34.0"}}, refs: []string{"a"}, wantErr: down},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			pool.Spec.ClusterName = "c"
			for _, name := range tc.refs {
				pool.Status.NodeRefs = append(pool.Status.NodeRefs, corev1.ObjectReference{Name: name})
			}
			got, err := PoolUpgrading(t.Context(), tc.nodes, pool, "v1.34.0")
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Errorf("%v, error %v, want %v, %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}
