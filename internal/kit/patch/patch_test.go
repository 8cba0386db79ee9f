// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func TestSnapshotWritesAtMostOnePatchOfEachKind(t *testing.T) {
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
		"a list is replaced only if the object has not changed": {
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
			commit := Snapshot(c, node, tc.opts...)
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

func TestSnapshotDoesNotWriteStatusWhenTheObjectCouldNotBeWritten(t *testing.T) {
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
	commit := Snapshot(c, node)
	node.Spec.ProviderID, node.Status.Phase = "p", "x"
	if err := commit(t.Context()); err == nil || statusWritten {
		t.Errorf("error %v, status written %v; want the error alone", err, statusWritten)
	}
}

// TestCommitWritesWhatTheAPIAccepts rejects one part of a commit after the other.
func TestCommitWritesWhatTheAPIAccepts(t *testing.T) {
	t.Parallel()
	invalid := apierrors.NewInvalid(clusterv1.GroupVersion().WithKind("Machine").GroupKind(), "m", nil)
	const (
		spec       = `object {"spec":{"providerID":"p"}}`
		conditions = `"conditions":[{"lastTransitionTime":null,"message":"","observedGeneration":1,"reason":"","status":"","type":"Ready"}]`
		old        = `"deprecated":{"v1beta1":{"conditions":[{"lastTransitionTime":null,"status":"","type":"Ready"}]}}`
	)
	for name, tc := range map[string]struct {
		object, status error // the answer to a patch; status is that to one with more than conditions
		want           []string
	}{
		"all": {want: []string{
			spec, `status {"status":{"addresses":[{"type":"X"}],` + strings.Replace(conditions, ":1,", ":2,", 1) + `,` + old + `,"observedGeneration":2}}`,
		}},
		"not metadata and spec": {object: invalid, want: []string{
			spec, `status {"status":{"addresses":[{"type":"X"}],` + conditions + `,` + old + `,"observedGeneration":1}}`,
		}},
		"not metadata and spec, by a webhook": {object: apierrors.NewForbidden(schema.GroupResource{}, "m", errors.New("no")), want: []string{
			spec, `status {"status":{"addresses":[{"type":"X"}],` + conditions + `,` + old + `,"observedGeneration":1}}`,
		}},
		"not the status": {status: invalid, want: []string{
			spec, `status {"status":{"addresses":[{"type":"X"}],` + strings.Replace(conditions, ":1,", ":2,", 1) + `,` + old + `,"observedGeneration":2}}`,
			`status {"status":{` + strings.Replace(conditions, ":1,", ":2,", 1) + `,` + old + `}}`,
		}},
		"neither": {object: invalid, status: invalid, want: []string{
			spec, `status {"status":{"addresses":[{"type":"X"}],` + conditions + `,` + old + `,"observedGeneration":1}}`,
			`status {"status":{` + conditions + `,` + old + `}}`,
		}},
		"not in time":          {object: apierrors.NewTooManyRequests("later", 1), want: []string{spec}},
		"another wrote before": {object: apierrors.NewConflict(schema.GroupResource{}, "m", errors.New("changed")), want: []string{spec}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			note := func(what string, obj client.Object, p client.Patch) string {
				data, err := p.Data(obj)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, what+" "+string(data))
				return string(data)
			}
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Generation: 1}}
			scheme := runtime.NewScheme()
			if err := clusterv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, p client.Patch, _ ...client.PatchOption) error {
					note("object", obj, p)
					return tc.object
				},
				SubResourcePatch: func(_ context.Context, _ client.Client, sub string, obj client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
					if strings.Contains(note(sub, obj, p), "addresses") {
						return tc.status
					}
					return nil
				},
			}).Build()
			commit := Snapshot(c, m)
			before := m.Spec
			m.Spec.ProviderID = "p"
			m.Status.ObservedGeneration = Generation(m, &before, m.Spec)
			m.Status.Addresses = clusterv1.MachineAddresses{{Type: "X"}}
			m.Status.Conditions = []metav1.Condition{{Type: "Ready", ObservedGeneration: 2}}
			m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{Conditions: clusterv1.Conditions{{Type: "Ready"}}}}
			err := commit(t.Context())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			for _, want := range []error{tc.object, tc.status} {
				if want != nil && !errors.Is(err, want) {
					t.Errorf("error %v, want %v in it", err, want)
				}
			}
			refused, is := errors.AsType[*RefusedError](err)
			if wanted := len(tc.want) > 1 && (tc.object != nil || tc.status != nil); is != wanted || is && refused.Object != client.Object(m) {
				t.Errorf("error %v about the content of %v: %t, want %t", err, m.Name, is, wanted)
			}
		})
	}
}

func TestSnapshotToleratesThatTheObjectHasGone(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	commit := Snapshot(fake.NewClientBuilder().Build(), node)
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
