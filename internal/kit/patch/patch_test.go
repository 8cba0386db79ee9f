// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestRememberWritesAtMostOnePatchOfEachKind(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Node)
		opts   []Option
		want   []string
	}{
		"nothing changed": {func(*corev1.Node) {}, nil, nil},
		"a status change": {
			func(n *corev1.Node) { n.Status.Phase = "x" }, nil,
			[]string{`status {"status":{"phase":"x"}}`},
		},
		"a status change under a lock": {
			func(n *corev1.Node) { n.Status.Phase = "x" }, []Option{Locked},
			[]string{`status {"metadata":{"resourceVersion":"999"},"status":{"phase":"x"}}`},
		},
		"spec goes before status, and its new version locks the status": {
			func(n *corev1.Node) { n.Spec.ProviderID = "p"; n.Status.Phase = "x" }, []Option{Locked},
			[]string{`object {"spec":{"providerID":"p"}}`, `status {"metadata":{"resourceVersion":"1000"},"status":{"phase":"x"}}`},
		},
		"a list is replaced only if nobody changed the object": {
			func(n *corev1.Node) { n.Finalizers = []string{"a.b/c"} }, nil,
			[]string{`object {"metadata":{"finalizers":["a.b/c"],"resourceVersion":"999"}}`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			note := func(what string, obj client.Object, p client.Patch) {
				data, err := p.Data(obj)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, what+" "+string(data))
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			c := fake.NewClientBuilder().WithObjects(node).WithStatusSubresource(node).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
					note("object", obj, p)
					return c.Patch(ctx, obj, p, opts...)
				},
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
					note(sub, obj, p)
					return c.SubResource(sub).Patch(ctx, obj, p, opts...)
				},
			}).Build()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
				t.Fatal(err)
			}
			commit := Remember(c, node, tc.opts...)
			tc.change(node)
			if err := commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRememberDoesNotWriteStatusWhenTheObjectCouldNotBeWritten(t *testing.T) {
	statusWritten := false
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	c := fake.NewClientBuilder().WithObjects(node).WithStatusSubresource(node).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("quota")
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			statusWritten = true
			return nil
		},
	}).Build()
	commit := Remember(c, node)
	node.Spec.ProviderID, node.Status.Phase = "p", "x"
	if err := commit(t.Context()); err == nil || statusWritten {
		t.Errorf("error %v, status written %v; want the error alone", err, statusWritten)
	}
}

func TestRememberToleratesThatTheObjectHasGone(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	commit := Remember(fake.NewClientBuilder().Build(), node)
	node.Spec.ProviderID, node.Status.Phase = "p", "x"
	if err := commit(t.Context()); err != nil {
		t.Errorf("commit: %v, want nil", err)
	}
}

func TestGenerationCountsOurOwnChange(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	before := node.Spec.DeepCopy()
	if got := Generation(node, before, node.Spec); got != 1 {
		t.Errorf("unchanged: generation %d", got)
	}
	node.Spec.ProviderID = "x://1"
	if got := Generation(node, before, node.Spec); got != 2 {
		t.Errorf("changed: generation %d", got)
	}
}
