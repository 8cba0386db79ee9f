// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/app/changeplan/standin"
)

// silent is a listener that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

// TestPlanReportsAWorkloadClusterThatHangs has the kubeconfig of Cluster demo name a
// listener that never answers, and that of Cluster plain one that refuses connections.
func TestPlanReportsAWorkloadClusterThatHangs(t *testing.T) {
	t.Parallel()
	servers := map[string]string{"demo-kubeconfig": silent(t), "plain-kubeconfig": "127.0.0.1:1"}
	m := serve(t, func(obj client.Object) {
		if s, is := obj.(*corev1.Secret); is && servers[s.Name] != "" {
			s.Data["value"] = address.ReplaceAll(s.Data["value"], []byte("server: https://"+servers[s.Name]+"\n"))
		}
	})
	p := plan(t, m, changeplan.Options{Workload: func(ctx context.Context, kubeconfig []byte) (*standin.Snapshot, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // nothing waits for more than a connection to this host
		defer cancel()
		return changeplan.ReadWorkload(ctx, kubeconfig)
	}}, upgrade(), shrink())
	demo, plain := p.Clusters[0], p.Clusters[1]
	if why := demo.NotPredicted; why == nil || why.Reason != planv1.WorkloadNotAnswering || !strings.Contains(why.Message, changeplan.ErrNoAnswer.Error()) ||
		len(demo.Machines) != 3 || p.Summary.NotPredicted != 3 {
		t.Errorf("Cluster demo:\n%s", text(t, p))
	}
	for _, m := range demo.Machines {
		if m.Action != "" {
			t.Errorf("Machine %s has the action %s", m.Name, m.Action)
		}
	}
	if plain.NotPredicted != nil || p.Summary.Deleted != 1 || !strings.Contains(strings.Join(p.Assumptions, "\n"), "The workload cluster could not be read") {
		t.Errorf("Cluster plain:\n%s", text(t, p))
	}
}

// TestReadWorkloadEndsWhenCanceled checks that an interrupted read is no cluster that
// does not answer.
func TestReadWorkloadEndsWhenCanceled(t *testing.T) {
	t.Parallel()
	objects := serve(t).world
	secret := &corev1.Secret{}
	if err := objects.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo-kubeconfig"}, secret); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kubeconfig := address.ReplaceAll(secret.Data["value"], []byte("server: https://"+silent(t)+"\n"))
	if _, err := changeplan.ReadWorkload(ctx, kubeconfig); err == nil || errors.Is(err, changeplan.ErrNoAnswer) {
		t.Errorf("error %v", err)
	}
}
