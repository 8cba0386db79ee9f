// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

var demo = causes.Key{Group: clusterv1.GroupVersion().Group, Kind: "Cluster", Namespace: "fleet", Name: "demo"}

func reader(c client.WithWatch) Reader { return Reader{Reader: references.Reader{Mgmt: c}} }

func find(objects []causes.Object, kind, name string) *causes.Object {
	i := slices.IndexFunc(objects, func(o causes.Object) bool { return o.Kind == kind && o.Name == name })
	if i < 0 {
		return nil
	}
	return &objects[i]
}

func event(name, reason, message string, at time.Time, about client.Object, kind string) *corev1.Event {
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}, Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at)}
	e.InvolvedObject = corev1.ObjectReference{APIVersion: clusterv1.GroupVersion().String(), Kind: kind, Namespace: "fleet", Name: about.GetName()}
	return e
}

func TestReadAddsQuotasAndWarnings(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	objects := cluster(1)
	machine := objects[2]
	calm := event("calm", "Calm", "all is well", noon, machine, "Machine")
	calm.Type = corev1.EventTypeNormal
	elsewhere := event("elsewhere", "Failed", "elsewhere", noon, machine, "Machine")
	elsewhere.Namespace = "other"
	objects = append(objects,
		event("first", "Failed", "first", noon, machine, "Machine"), event("last", "Failed", "last", noon.Add(time.Minute), machine, "Machine"),
		event("other", "Failed", "of a kind that is not read", noon, machine, "Pod"), calm, elsewhere,
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "few"}, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"count/machines.cluster.x-k8s.io": resource.MustParse("1")}, Used: corev1.ResourceList{"count/machines.cluster.x-k8s.io": resource.MustParse("1")},
		}})
	got, _, err := reader(memory(t, objects...)).Read(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	if o := find(got, "Machine", machine.GetName()); o == nil || len(o.Warnings) != 1 || o.Warnings[0].Message != "last" {
		t.Errorf("Machine %+v", o)
	}
	if o := find(got, "ResourceQuota", "few"); o == nil || len(o.Exhausted) != 1 {
		t.Errorf("ResourceQuota %+v", o)
	}
	if find(got, "Pod", machine.GetName()) != nil {
		t.Error("an Event adds an object that is not read")
	}
}

// TestReadLeavesOutWhatIsForbidden and names it, and returns any other error.
func TestReadLeavesOutWhatIsForbidden(t *testing.T) {
	t.Parallel()
	lists := []string{"EventList", "ResourceQuotaList", "MachineDeploymentList", "MachineList"}
	for _, kind := range lists {
		for name, cause := range map[string]error{
			"forbidden": apierrors.NewForbidden(schema.GroupResource{Group: kind, Resource: "x"}, "", errors.New("no")), "broken": errors.New("broken by a test"),
		} {
			c := interceptor.NewClient(memory(t, cluster(1)...), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if got := list.GetObjectKind().GroupVersionKind().Kind; got == kind || strings.HasSuffix(fmt.Sprintf("%T", list), "."+kind) {
						return cause
					}
					return c.List(ctx, list, opts...)
				},
			})
			got, unread, err := reader(c).Read(t.Context(), demo)
			switch {
			case name == "broken" && (err == nil || !strings.Contains(err.Error(), "broken by a test")):
				t.Errorf("%s is %s: error %v", kind, name, err)
			case name == "forbidden" && (err != nil || find(got, "LocalCluster", "demo") == nil || !slices.Equal(unread, []string{"x." + kind})):
				t.Errorf("%s is %s: %d objects, without %q, error %v", kind, name, len(got), unread, err)
			}
		}
	}
}

// TestExplainNamesWhatMayNotBeRead has a user who may read only a Machine.
func TestExplainNamesWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	c := interceptor.NewClient(memory(t, cluster(1)...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if kind := obj.GetObjectKind().GroupVersionKind(); kind.Kind != "Machine" {
				return apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name, errors.New("no"))
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: "no list of anything"}}
		},
	})
	r, err := reader(c).Explain(t.Context(), causes.Key{Group: clusterv1.GroupVersion().Group, Kind: "Machine", Namespace: "fleet", Name: "m-000"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"cluster.cluster.x-k8s.io", "localmachine.infrastructure.capstan.dev", "no list of anything"}; !slices.Equal(r.Unread, want) || len(r.Causes) > 0 {
		t.Errorf("without %q, causes %+v; want %q", r.Unread, r.Causes, want)
	}
}

// TestReadSurvivesDeletionMeanwhile of what a Machine refers to.
func TestReadSurvivesDeletionMeanwhile(t *testing.T) {
	t.Parallel()
	c := interceptor.NewClient(memory(t, cluster(1)...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if kind := obj.GetObjectKind().GroupVersionKind().Kind; kind == "LocalMachine" {
				return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	got, unread, err := reader(c).Read(t.Context(), demo)
	if err != nil || len(unread) > 0 {
		t.Fatalf("without %q, error %v", unread, err)
	}
	if o := find(got, "LocalMachine", "m-000"); o == nil || !o.Missing {
		t.Errorf("LocalMachine %+v", o)
	}
}

func TestReadNotesMissingControlPlaneAndClass(t *testing.T) {
	t.Parallel()
	objects := cluster(0)
	c := objects[0].(*clusterv1.Cluster)
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachine", Name: "plane"}
	c.Spec.Topology.ClassRef = clusterv1.ClusterClassRef{Name: "quick", Namespace: "classes"}
	got, _, err := reader(memory(t, objects...)).Read(t.Context(), demo)
	if err != nil {
		t.Fatal(err)
	}
	for kind, name := range map[string]string{"LocalMachine": "plane", "ClusterClass": "quick"} {
		if o := find(got, kind, name); o == nil || !o.Missing {
			t.Errorf("%s %s: %+v", kind, name, o)
		}
	}
}

// TestReadNamesTheNamespaceThatHasTheObject, since a user often forgets it.
func TestReadNamesTheNamespaceThatHasTheObject(t *testing.T) {
	t.Parallel()
	c := memory(t, cluster(0)...)
	byName := interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			if o.FieldSelector == nil {
				return c.List(ctx, list, opts...)
			}
			if err := c.List(ctx, list, client.InNamespace(o.Namespace)); err != nil || o.FieldSelector.String() == "metadata.name=demo" {
				return err
			}
			return c.List(ctx, list, client.InNamespace("none"))
		},
	})
	key := demo
	key.Namespace = "default"
	if _, _, err := reader(byName).Read(t.Context(), key); err == nil || err.Error() != "Cluster default/demo not found: namespace fleet has one: use -n fleet" {
		t.Errorf("error %v", err)
	}
	key.Name = "another"
	if _, _, err := reader(byName).Read(t.Context(), key); err == nil || err.Error() != "Cluster default/another not found" {
		t.Errorf("error %v", err)
	}
}

// TestReadOfAClassReadsItsTemplatesAndExtensions, which it reads at the same time: many
// of both show a race.
func TestReadOfAClassReadsItsTemplatesAndExtensions(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme), runtimev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	const many = 300
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "quick", UID: "class"}}
	class.Spec.Infrastructure.TemplateRef = clusterv1.ClusterClassTemplateReference{APIVersion: infrav1.GroupVersion().String(), Kind: "LocalClusterTemplate", Name: "gone"}
	objects := []client.Object{class}
	for n := range many {
		objects = append(objects, &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("e-", n)}})
		class.Spec.Workers.MachineDeployments = append(class.Spec.Workers.MachineDeployments, clusterv1.MachineDeploymentClass{
			Class: fmt.Sprint("w-", n), Infrastructure: clusterv1.ClusterClassTemplate{
				TemplateRef: clusterv1.ClusterClassTemplateReference{APIVersion: infrav1.GroupVersion().String(), Kind: "LocalMachineTemplate", Name: fmt.Sprint("t-", n)},
			},
		})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).WithObjects(objects...).Build()
	got, _, err := reader(c).Read(t.Context(), causes.Key{Group: clusterv1.GroupVersion().Group, Kind: "ClusterClass", Namespace: "fleet", Name: "quick"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1+many+1+many {
		t.Errorf("%d objects", len(got))
	}
	for kind, name := range map[string]string{"LocalClusterTemplate": "gone", "LocalMachineTemplate": "t-7"} {
		if o := find(got, kind, name); o == nil || !o.Missing {
			t.Errorf("%s %s: %+v", kind, name, o)
		}
	}
	if find(got, "ExtensionConfig", "e-7") == nil {
		t.Error("an ExtensionConfig is missing")
	}
}

func TestReplacedReadsEventsAboutTheMachine(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	set := &clusterv1.MachineSet{ObjectMeta: named("set")}
	related := event("related", "SuccessfulDelete", "deleted one", noon.Add(2*time.Minute), set, "MachineSet")
	related.Related = &corev1.ObjectReference{Kind: "Machine", Name: "m-000"}
	objects := append(cluster(1),
		event("b", "MachineMarkedUnhealthy", "the Node is not ready", noon.Add(time.Minute), &clusterv1.Machine{ObjectMeta: named("m-000")}, "Machine"), related,
		event("a", "SuccessfulDelete", "Deleted machine m-000", noon, set, "MachineSet"),
		event("other", "SuccessfulDelete", "Deleted machine m-0001", noon, set, "MachineSet"),
		event("unrelated", "SuccessfulCreate", "Created machine m-000", noon, set, "MachineSet"))
	key := causes.Key{Group: clusterv1.GroupVersion().Group, Kind: "Machine", Namespace: "fleet", Name: "m-000"}
	r, err := reader(memory(t, objects...)).Replaced(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Statements {
		got = append(got, s.Text)
	}
	if want := []string{"Deleted machine m-000", "the Node is not ready", "deleted one"}; !slices.Equal(got, want) || !r.Exists {
		t.Errorf("exists %t, %q, want %q", r.Exists, got, want)
	}
	key.Kind = "MachineSet"
	if _, err := reader(memory(t)).Replaced(t.Context(), key); err == nil || !strings.Contains(err.Error(), "only Machines are replaced") {
		t.Errorf("error %v", err)
	}
}
