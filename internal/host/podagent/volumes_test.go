// SPDX-License-Identifier: Apache-2.0

package podagent

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/builder"
)

// meanwhile calls a function once, after a ConfigMap was read.
type meanwhile struct {
	client.Reader
	armed atomic.Bool
	do    func()
}

func (m *meanwhile) Get(ctx context.Context, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
	err := m.Reader.Get(ctx, key, obj, o...)
	if _, is := obj.(*corev1.ConfigMap); is && m.armed.CompareAndSwap(true, false) {
		m.do()
	}
	return err
}

// Notifications of objects that change together arrive one at a time, the second
// while the files of the first are written.
func TestAChangeWhileVolumesAreWrittenIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, builder.Parse[corev1.Secret](t, "metadata: {namespace: ns, name: s}\ndata: {k: b25l}"), builder.Parse[corev1.ConfigMap](t, "metadata: {namespace: ns, name: m}\ndata: {k: one}"))
	volumesChanged := func() { w.r.Node.named(client.ObjectKey{Namespace: "ns", Name: "p"}).volumesChanged() }
	hook := &meanwhile{Reader: w.mgmt, do: func() {
		if err := w.mgmt.Update(t.Context(), builder.Parse[corev1.Secret](t, "metadata: {namespace: ns, name: s}\ndata: {k: dHdv}")); err != nil {
			t.Error(err)
		}
		volumesChanged()
	}}
	w.r.Node.Live = hook
	w.add("spec: {containers: [{name: a, image: x}], volumes: [{name: v, projected: {sources: [{secret: {name: s, items: [{key: k, path: s}]}}, {configMap: {name: m, items: [{key: k, path: m}]}}]}}]}")
	w.until("it to be ready", ready)
	hook.armed.Store(true)
	volumesChanged()
	w.until("the second change", func(*corev1.Pod) bool {
		b, err := os.ReadFile(filepath.Join(w.dir, "volumes", "ns_p_u1", "v", "s"))
		return err == nil && string(b) == "two"
	})
}
