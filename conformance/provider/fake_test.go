// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const finalizer, watchFilter = "example.com/fake", "fake"

// fakeProvider is a provider whose objects violate the contract, as listed in
// spec.faults. When something happens in a namespace it reconciles all its objects there,
// and reads without a cache. It may have a core next to it.
type fakeProvider struct {
	client client.WithWatch
	core   *core
	older  bool // it implements the contract v1beta1

	mu    sync.Mutex      // guards the following fields
	dirty map[string]bool // namespaces to reconcile
	wake  chan struct{}
}

// startFake runs the provider until the context ends.
func startFake(ctx context.Context, c client.WithWatch, beside *core, all map[string]*crd) (*fakeProvider, error) {
	f := &fakeProvider{client: c, core: beside, older: all["FakeMachine"].Labels["cluster.x-k8s.io/v1beta1"] != "", dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
	objects := []client.Object{grants()}
	for _, d := range all {
		objects = append(objects, d.DeepCopy())
	}
	for _, obj := range objects {
		if err := c.Create(ctx, obj); client.IgnoreAlreadyExists(err) != nil {
			return nil, err
		}
	}
	follow := []schema.GroupVersionKind{clusterv1.GroupVersion().WithKind("Cluster"), clusterv1.GroupVersion().WithKind("Machine"), clusterv1.GroupVersion().WithKind("MachinePool")}
	for _, kind := range fakeKinds {
		if all[kind] != nil {
			follow = append(follow, gvk(kind))
		}
	}
	for _, kind := range follow {
		events, err := f.watch(ctx, kind)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, events.Stop)
		go func() {
			for {
				select {
				case e := <-events.ResultChan():
					if obj, ok := e.Object.(client.Object); ok {
						f.look(obj.GetNamespace())
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	go f.run(ctx)
	return f, nil
}

// watch is retried until the API server serves the kind, which was defined a moment ago.
func (f *fakeProvider) watch(ctx context.Context, kind schema.GroupVersionKind) (events watch.Interface, err error) {
	deadline := time.After(time.Minute)
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if events, err = f.client.Watch(ctx, list); err == nil {
			return events, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			return nil, err
		}
	}
}

func gvk(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: groupOf(kind), Version: "v1", Kind: kind}
}

// look requests a reconcile of the objects of a namespace.
func (f *fakeProvider) look(namespace string) {
	f.mu.Lock()
	f.dirty[namespace] = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default: // a reconcile is pending
	}
}

func (f *fakeProvider) run(ctx context.Context) {
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		namespaces := f.dirty
		f.dirty = map[string]bool{}
		f.mu.Unlock()
		for namespace := range namespaces {
			if err := f.observe(ctx, namespace); err != nil && !apierrors.IsNotFound(err) {
				time.AfterFunc(20*time.Millisecond, func() { f.look(namespace) })
			}
		}
	}
}

func (f *fakeProvider) observe(ctx context.Context, namespace string) error {
	var errs []error
	if f.core != nil {
		errs = append(errs, f.core.observe(ctx, namespace))
	}
	for _, kind := range fakeKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk(kind + "List"))
		if err := f.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			errs = append(errs, f.reconcile(ctx, &one{fakeProvider: f, obj: &list.Items[i]}))
		}
	}
	return errors.Join(errs...)
}

// one is the reconcile of one object.
type one struct {
	*fakeProvider
	obj     *unstructured.Unstructured
	cluster *clusterv1.Cluster
	machine *clusterv1.Machine
	pool    *clusterv1.MachinePool
}

// is reports whether the object has this fault.
func (o *one) is(fault string) bool {
	faults, _, _ := unstructured.NestedStringSlice(o.obj.Object, "spec", "faults")
	return slices.Contains(faults, fault)
}

// owner reads the owner of the object; false if it has none.
func (o *one) owner(ctx context.Context) (bool, error) {
	for _, ref := range o.obj.GetOwnerReferences() {
		key := client.ObjectKey{Namespace: o.obj.GetNamespace(), Name: ref.Name}
		switch ref.Kind {
		case "Machine":
			o.machine = &clusterv1.Machine{}
			if err := o.client.Get(ctx, key, o.machine); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			key.Name = o.machine.Spec.ClusterName
		case "MachinePool":
			o.pool = &clusterv1.MachinePool{}
			if err := o.client.Get(ctx, key, o.pool); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			key.Name = o.pool.Spec.ClusterName
		case "Cluster":
		default:
			continue
		}
		o.cluster = &clusterv1.Cluster{}
		return true, client.IgnoreNotFound(o.client.Get(ctx, key, o.cluster))
	}
	return false, nil
}

func (f *fakeProvider) reconcile(ctx context.Context, o *one) error {
	obj := o.obj
	if obj.GetAnnotations()[clusterv1.ManagedByAnnotation] != "" && !o.is("touches what is managed from elsewhere") ||
		obj.GetLabels()[clusterv1.WatchLabel] != watchFilter && !o.is("ignores the watch filter") {
		return nil
	}
	owned, err := o.owner(ctx)
	if err != nil {
		return err
	}
	paused, seen := o.paused()
	if !obj.GetDeletionTimestamp().IsZero() && (!seen || o.is("continues in a pause")) {
		return o.end(ctx)
	}
	if !owned {
		return o.saveStatus(ctx, func() {
			if o.is("does not wait for its owner") {
				o.set("yes", "status", "seen")
			}
		})
	}
	if !o.is("is silent about pauses") {
		if err := o.saveStatus(ctx, func() {
			o.condition(clusterv1.PausedCondition, paused || saysPaused(o.obj) && o.is("stays paused"))
		}); err != nil {
			return err
		}
	}
	if seen {
		return nil
	}
	if !o.is("has no finalizer") {
		if err := o.save(ctx, func() {
			if o.is("writes a list of finalizers") {
				obj.SetFinalizers(nil)
			}
			controllerutil.AddFinalizer(obj, finalizer)
		}); err != nil {
			return err
		}
	}
	if o.is("is restless") {
		time.AfterFunc(time.Second, func() { f.look(obj.GetNamespace()) })
		if err := o.saveStatus(ctx, func() { o.set(time.Now().Truncate(time.Second).String(), "status", "beat") }); err != nil {
			return err
		}
	}
	if o.is("never gets there") {
		return nil
	}
	return o.live(ctx)
}

// paused reports whether an object is paused, and whether the provider observes it.
func (o *one) paused() (is, seen bool) {
	annotated := o.obj.GetAnnotations()[clusterv1.PausedAnnotation] != ""
	cluster := o.cluster != nil && ptr.Deref(o.cluster.Spec.Paused, false)
	return annotated || cluster, annotated && !o.is("ignores the annotation") || cluster && !o.is("ignores the pause of its Cluster")
}

// end removes the finalizer of an object that is deleted.
func (o *one) end(ctx context.Context) error {
	if o.is("keeps its finalizer") && o.obj.GetAnnotations()[doneBefore] != "" ||
		o.machine != nil && o.machine.Spec.Bootstrap.DataSecretName == nil && o.is("is kept without data") {
		return nil
	}
	return o.save(ctx, func() {
		controllerutil.RemoveFinalizer(o.obj, finalizer)
		if o.is("takes all finalizers away") {
			o.obj.SetFinalizers(nil)
		}
	})
}

func (o *one) set(value any, path ...string) {
	if err := unstructured.SetNestedField(o.obj.Object, value, path...); err != nil {
		panic(fmt.Sprintf("set %s: %v", strings.Join(path, "."), err))
	}
}

func (o *one) annotate(key string) {
	annotations := o.obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = "true"
	o.obj.SetAnnotations(annotations)
}

// condition sets a condition, which changes its time when its status does.
func (o *one) condition(name string, is bool) {
	o.conditionSays(name, map[bool]string{true: "True", false: "False"}[is])
}

func (o *one) conditionSays(name, status string) {
	list, _, _ := unstructured.NestedSlice(o.obj.Object, "status", "conditions")
	i := slices.IndexFunc(list, func(c any) bool { return c.(map[string]any)["type"] == name })
	if i >= 0 && list[i].(map[string]any)["status"] == status {
		return
	}
	if i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	list = append(list, map[string]any{"type": name, "status": status, "reason": "Fake", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)})
	o.set(list, "status", "conditions")
}

// save writes a change, if it is one.
func (o *one) save(ctx context.Context, change func()) error {
	return o.write(change, func() error { return o.client.Update(ctx, o.obj) })
}

func (o *one) saveStatus(ctx context.Context, change func()) error {
	return o.write(change, func() error { return o.client.Status().Update(ctx, o.obj) })
}

func (o *one) write(change func(), write func() error) error {
	before := o.obj.DeepCopy()
	change()
	if reflect.DeepEqual(before.Object, o.obj.Object) {
		return nil
	}
	return write()
}

// saysPaused reports whether an object reports that it is paused.
func saysPaused(obj *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	return slices.ContainsFunc(list, func(c any) bool {
		return c.(map[string]any)["type"] == clusterv1.PausedCondition && c.(map[string]any)["status"] == "True"
	})
}
