// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

func TestProbesAreMadeTogetherAndNeverLate(t *testing.T) {
	t.Parallel()
	moments := map[time.Time]int{}
	now := time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.UTC)
	for range 1000 { // clusters that connected one after another in a second
		now = now.Add(time.Millisecond)
		d := untilProbe(now)
		if d > 11*time.Second || d < 8500*time.Millisecond {
			t.Fatalf("a probe after %s, want 8.5s to 11s", d)
		}
		moments[now.Add(d)]++
	}
	if len(moments) > 7 { // from 9 to 12 s, each half second
		t.Errorf("1000 clusters are probed in %d moments, want 7 or fewer", len(moments))
	}
}

func TestAKubeconfigIsReadOnceForAllAttempts(t *testing.T) {
	t.Parallel()
	authority, err := certs.New(certs.CA, certs.ECDSAP256, time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	secret := func(server string) *corev1.Secret {
		data, err := kubeconfig.New(kubeconfig.Options{Cluster: "a", Server: server, CA: authority, Algorithm: certs.ECDSAP256, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return kubeconfig.Secret(types.NamespacedName{Namespace: "ns", Name: "a"}, data, nil)
	}
	var p parsed
	read := func(s *corev1.Secret) *rest.Config {
		t.Helper()
		cfg, err := p.configFrom(s)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	before := secret("https://127.0.0.1:1")
	first := read(before)
	first.Host = "changed by who has it"
	if second := read(before.DeepCopy()); second.Host != "https://127.0.0.1:1" || &second.CAData[0] != &first.CAData[0] {
		t.Errorf("host %q, or the kubeconfig was read again", second.Host)
	}
	if third := read(secret("https://127.0.0.1:2")); third.Host != "https://127.0.0.1:2" {
		t.Errorf("host %q of a kubeconfig that changed", third.Host)
	}
	if _, err := p.configFrom(&corev1.Secret{}); err == nil {
		t.Error("a Secret without a kubeconfig passes")
	}
}

// TestClusterThatPanicsIsConnectedAgain: a panic ends neither the process nor the
// attempts to connect.
func TestClusterThatPanicsIsConnectedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFleet(t, map[string]*server{"demo": startServer(t)})
		panics := 1
		f.Secrets = interceptor.NewClient(f.mgmt.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, ok := obj.(*corev1.Secret); ok && key.Name == "demo-kubeconfig" && panics > 0 {
					panics--
					panic("no such kubeconfig")
				}
				return c.Get(ctx, key, obj, opts...)
			},
		})
		f.reconcile(t, "demo")
		time.Sleep(2 * firstRetry)
		synctest.Wait()
		if _, err := f.Client(t.Context(), keyOf("demo")); err != nil || panics != 0 {
			t.Errorf("demo is not connected after %d panics: %v", 1-panics, err)
		}
	})
}
