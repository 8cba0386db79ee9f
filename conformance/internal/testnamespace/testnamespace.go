// SPDX-License-Identifier: Apache-2.0

// Package testnamespace is a separate namespace on a management cluster, in which objects
// are created to observe how controllers handle them: all observed changes there
// are recorded, and at the end everything is deleted.
package testnamespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Limits are the time limits of a World.
type Limits struct {
	// Timeout is for what must happen, Soon for what should have happened by then,
	// Quiet for what must not.
	Timeout, Soon, Quiet time.Duration
}

// World is such a namespace.
type World struct {
	Client    client.WithWatch
	Namespace string
	Limits    Limits

	// Labels are set on all created objects.
	Labels map[string]string

	followed map[schema.GroupKind]schema.GroupVersionKind
	wrote    map[Thing]*unstructured.Unstructured // the last response to the suite's writes
	wanted   map[Thing]*unstructured.Unstructured // what the suite has written
	watching context.Context                      // until End
	cancel   context.CancelFunc
	watchers sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	seen    map[Thing][]*unstructured.Unstructured
	gone    map[Thing]bool
	changed chan struct{} // closed when a change was observed
	fault   error         // why changes are no longer observed
}

// Thing identifies an object in a World.
type Thing struct {
	schema.GroupKind
	Name string
}

// ThingOf returns the Thing of an object: its kind and name.
func ThingOf(obj *unstructured.Unstructured) Thing {
	return Thing{obj.GroupVersionKind().GroupKind(), obj.GetName()}
}

func (t Thing) String() string { return t.Kind + " " + t.Name }

// Connect creates a client of the management cluster.
func Connect(cfg *rest.Config) (client.WithWatch, error) {
	s := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(s), corev1.AddToScheme(s), rbacv1.AddToScheme(s), apiextensionsv1.AddToScheme(s)); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 50, 100           // otherwise client-side throttling delays the suite
	cfg.WarningHandler = rest.NoWarnings{} // about the content of examples
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return c, nil
}

// New creates the namespace, and follows Clusters, their machines and the given
// kinds.
func New(ctx context.Context, c client.WithWatch, limits Limits, kinds []schema.GroupVersionKind) (*World, error) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "capstan-conformance-"}}
	if err := c.Create(ctx, ns); err != nil {
		return nil, fmt.Errorf("create a namespace: %w", err)
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w := &World{
		Client: c, Namespace: ns.Name, Limits: limits, cancel: cancel,
		seen: map[Thing][]*unstructured.Unstructured{}, gone: map[Thing]bool{}, changed: make(chan struct{}), followed: map[schema.GroupKind]schema.GroupVersionKind{}, wrote: map[Thing]*unstructured.Unstructured{},
		wanted: map[Thing]*unstructured.Unstructured{},
	}
	w.watching = watching
	for _, kind := range []string{"Cluster", "Machine", "MachinePool"} {
		w.Follow(clusterv1.GroupVersion().WithKind(kind))
	}
	for _, kind := range kinds {
		w.Follow(kind)
	}
	return w, nil
}

// Follow watches a kind until End.
func (w *World) Follow(gvk schema.GroupVersionKind) {
	if _, ok := w.followed[gvk.GroupKind()]; ok {
		return
	}
	w.followed[gvk.GroupKind()] = gvk
	ctx := w.watching
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	events, err := w.Client.Watch(ctx, list, client.InNamespace(w.Namespace))
	if err != nil {
		w.broken(fmt.Errorf("watch %s: %w", gvk.Kind, err))
		return
	}
	w.watchers.Go(func() {
		if err := recovery.Call(ctx, func() error { return w.follow(ctx, gvk.Kind, events) }); err != nil {
			w.broken(err)
		}
	})
}

func (w *World) follow(ctx context.Context, kind string, events watch.Interface) error {
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events.ResultChan():
			if !ok || e.Type == watch.Error {
				return fmt.Errorf("the watch of %s was ended by the management cluster", kind)
			}
			w.add(e)
		}
	}
}

func (w *World) broken(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = errors.Join(w.fault, err)
	w.notify()
}

func (w *World) add(e watch.Event) {
	obj, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t := ThingOf(obj)
	w.seen[t] = append(w.seen[t], obj)
	w.gone[t] = e.Type == watch.Deleted
	w.notify()
}

// Fault returns why changes are no longer observed; nil while they are.
func (w *World) Fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// notify signals all callers that wait. The caller holds mu.
func (w *World) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// History returns the observed versions of an object, oldest first, and whether it
// was deleted.
func (w *World) History(t Thing) ([]*unstructured.Unstructured, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*unstructured.Unstructured(nil), w.seen[t]...), w.gone[t]
}

// Latest returns the last observed version of an object; nil if there is none.
func (w *World) Latest(t Thing) *unstructured.Unstructured {
	all, gone := w.History(t)
	if len(all) == 0 || gone {
		return nil
	}
	return all[len(all)-1]
}

// All returns the existing objects of a kind.
func (w *World) All(kind schema.GroupKind) (found []*unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, versions := range w.seen {
		if t.GroupKind == kind && !w.gone[t] {
			found = append(found, versions[len(versions)-1])
		}
	}
	return found
}

// Await waits until check returns nil. It calls check after each observed change.
// If the time is over, the last error of check is the result.
func (w *World) Await(ctx context.Context, check func() error) error {
	return w.Within(ctx, w.Limits.Timeout, check)
}

// Within is Await with another limit.
func (w *World) Within(ctx context.Context, limit time.Duration, check func() error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		w.mu.Lock()
		changed, fault := w.changed, w.fault // before check, so that nothing is missed
		w.mu.Unlock()
		if fault != nil {
			return fault
		}
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return fmt.Errorf("after %s: %w", limit, err)
		}
	}
}

// Quietly waits for the time in which nothing must happen. It returns immediately
// if something does.
func (w *World) Quietly(ctx context.Context, happened func() error) error {
	var what error
	err := w.Within(ctx, w.Limits.Quiet, func() error {
		if what = happened(); what != nil {
			return nil
		}
		return errQuiet
	})
	if err == nil || errors.Is(err, errQuiet) {
		return what
	}
	return err
}

// seeing is the time limit for a watch to show what the suite wrote.
const seeing = time.Minute

var errQuiet = errors.New("nothing happened")

// Make creates a copy of obj under a name.
func (w *World) Make(ctx context.Context, obj *unstructured.Unstructured, name string, change ...func(*unstructured.Unstructured)) (*unstructured.Unstructured, error) {
	obj = obj.DeepCopy()
	obj.SetNamespace(w.Namespace)
	obj.SetName(name)
	if len(w.Labels) > 0 {
		labels := maps.Clone(w.Labels)
		maps.Copy(labels, obj.GetLabels())
		obj.SetLabels(labels)
	}
	for _, f := range change {
		f(obj)
	}
	if err := w.Client.Create(ctx, obj); err != nil {
		return nil, fmt.Errorf("create %s: %w", ThingOf(obj), err)
	}
	w.wrote[ThingOf(obj)], w.wanted[ThingOf(obj)] = obj, obj.DeepCopy()
	return obj, w.Within(ctx, seeing, func() error { return w.sees(obj) })
}

// Wrote returns an object as the suite last wrote it.
func (w *World) Wrote(t Thing) *unstructured.Unstructured { return w.wrote[t] }

// Wanted returns what the suite has written of an object, without changes by
// others; nil if the suite did not create it.
func (w *World) Wanted(t Thing) *unstructured.Unstructured { return w.wanted[t] }

// sees reports whether a version of an object, or its deletion, was observed; kinds
// that are not followed need not be.
func (w *World) sees(obj *unstructured.Unstructured) error {
	if _, ok := w.followed[obj.GroupVersionKind().GroupKind()]; !ok {
		return nil
	}
	all, gone := w.History(ThingOf(obj))
	for _, seen := range all {
		if gone || seen.GetResourceVersion() == obj.GetResourceVersion() {
			return nil
		}
	}
	return fmt.Errorf("%s was written and not seen", ThingOf(obj))
}

// Change changes an object, even if other clients write it meanwhile.
func (w *World) Change(ctx context.Context, t Thing, change func(*unstructured.Unstructured)) error {
	return w.write(ctx, t, change, func(obj *unstructured.Unstructured, p client.Patch) error { return w.Client.Patch(ctx, obj, p) })
}

// ChangeStatus is Change for the status.
func (w *World) ChangeStatus(ctx context.Context, t Thing, change func(*unstructured.Unstructured)) error {
	return w.write(ctx, t, change, func(obj *unstructured.Unstructured, p client.Patch) error {
		err := w.Client.Status().Patch(ctx, obj, p)
		if apierrors.IsNotFound(err) { // the kind has no status subresource
			return w.Client.Patch(ctx, obj, p)
		}
		return err
	})
}

func (w *World) write(ctx context.Context, t Thing, change func(*unstructured.Unstructured), write func(*unstructured.Unstructured, client.Patch) error) error {
	before := w.Latest(t)
	if before == nil {
		return fmt.Errorf("%s is not there", t)
	}
	obj := before.DeepCopy()
	change(obj)
	if err := write(obj, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change %s: %w", t, err)
	}
	w.wrote[t] = obj
	if wanted := w.wanted[t]; wanted != nil {
		change(wanted)
	}
	return w.Within(ctx, seeing, func() error { return w.sees(obj) })
}

// Delete deletes an object; it does not wait until the object is not found.
func (w *World) Delete(ctx context.Context, t Thing) error {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(w.followed[t.GroupKind])
	obj.SetNamespace(w.Namespace)
	obj.SetName(t.Name)
	if err := w.Client.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", t, err)
	}
	return nil
}

// End deletes all created objects, Clusters first, as their deletion deletes their
// objects, and waits until they are deleted. The context of the run may have ended.
func (w *World) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.Limits.Timeout)
	defer cancel()
	defer func() {
		w.cancel()
		w.watchers.Wait()
	}()
	clusters := clusterv1.GroupVersion().WithKind("Cluster").GroupKind()
	err := w.release(ctx, clusters)
	for _, only := range []bool{true, false} {
		for kind := range w.followed {
			if only != (kind == clusters) {
				continue
			}
			for _, obj := range w.All(kind) {
				err = errors.Join(err, w.Delete(ctx, ThingOf(obj)))
			}
		}
		err = errors.Join(err, w.Await(ctx, func() error { return w.left(func(kind schema.GroupKind) bool { return !only || kind == clusters }) }))
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	if e := w.Client.Delete(ctx, ns); client.IgnoreNotFound(e) != nil {
		err = errors.Join(err, fmt.Errorf("delete namespace %s: %w", w.Namespace, e))
	}
	return err
}

// release unpauses what an interrupted run left paused, and removes the suite's
// finalizers.
func (w *World) release(ctx context.Context, clusters schema.GroupKind) (err error) {
	for _, cluster := range w.All(clusters) {
		if paused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused"); paused {
			e := w.Change(ctx, ThingOf(cluster), func(obj *unstructured.Unstructured) {
				unstructured.RemoveNestedField(obj.Object, "spec", "paused")
			})
			err = errors.Join(err, e)
		}
	}
	for kind := range w.followed {
		for _, obj := range w.All(kind) {
			if obj.GetAnnotations()[clusterv1.PausedAnnotation] == BySuite || slices.Contains(obj.GetFinalizers(), Kept) {
				e := w.Change(ctx, ThingOf(obj), func(obj *unstructured.Unstructured) {
					Annotate(obj, clusterv1.PausedAnnotation, "")
					Release(obj)
				})
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// left returns an error that names the objects that still exist.
func (w *World) left(which func(schema.GroupKind) bool) error {
	var left []string
	for kind := range w.followed {
		if !which(kind) {
			continue
		}
		for _, obj := range w.All(kind) {
			left = append(left, fmt.Sprintf("%s (finalizers %s)", ThingOf(obj), strings.Join(obj.GetFinalizers(), ", ")))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left in namespace %s: %s", w.Namespace, strings.Join(left, "; "))
	}
	return nil
}

// BySuite is the value of annotations that the suite sets.
const BySuite = "capstan-conformance"

// Kept is a finalizer of the suite, which others must not remove; so are an
// annotation and a label of this name.
const Kept = "conformance.capstan.dev/kept"

// Release removes the suite's finalizer.
func Release(obj *unstructured.Unstructured) {
	obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == Kept }))
}

// Annotate sets an annotation, or removes it if value is empty.
func Annotate(obj *unstructured.Unstructured, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	if value == "" {
		delete(annotations, key)
	}
	obj.SetAnnotations(annotations)
}
