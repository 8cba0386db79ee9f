// SPDX-License-Identifier: Apache-2.0

// Package sandbox is a namespace of one's own on a management cluster, where
// objects are made to see what others make of them: all that is seen to happen
// there is kept, and in the end all is deleted.
package sandbox

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

// Limits are how long a World waits.
type Limits struct {
	// Timeout is for what must happen, Soon for what should have happened by
	// then, Quiet for what must not.
	Timeout, Soon, Quiet time.Duration
}

// World is such a namespace.
type World struct {
	Client    client.WithWatch
	Namespace string
	Limits    Limits

	// Labels are put on all that is made.
	Labels map[string]string

	followed map[schema.GroupKind]schema.GroupVersionKind
	wrote    map[Thing]*unstructured.Unstructured // as it was after the suite wrote it last
	wanted   map[Thing]*unstructured.Unstructured // what the suite has written of it
	watching context.Context                      // until the world ends
	cancel   context.CancelFunc
	watchers sync.WaitGroup

	mu      sync.Mutex // guards what follows
	seen    map[Thing][]*unstructured.Unstructured
	gone    map[Thing]bool
	changed chan struct{} // closed when something was seen
	fault   error         // why no more is seen
}

// Thing is an object in a World.
type Thing struct {
	schema.GroupKind
	Name string
}

// ThingOf is an object by its kind and its name.
func ThingOf(obj *unstructured.Unstructured) Thing {
	return Thing{obj.GroupVersionKind().GroupKind(), obj.GetName()}
}

func (t Thing) String() string { return t.Kind + " " + t.Name }

// Connect makes a client of the management cluster.
func Connect(cfg *rest.Config) (client.WithWatch, error) {
	s := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(s), corev1.AddToScheme(s), rbacv1.AddToScheme(s), apiextensionsv1.AddToScheme(s)); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = 50, 100           // or the suite waits for itself
	cfg.WarningHandler = rest.NoWarnings{} // of what examples are like
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: s})
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return c, nil
}

// New makes the namespace, and follows what happens to Clusters, their machines
// and the kinds that are given.
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

// Follow watches a kind until the world ends.
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
	w.tell()
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
	w.tell()
}

// Fault is why no more is seen; nil while all is.
func (w *World) Fault() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// tell wakes who awaits something. The caller holds mu.
func (w *World) tell() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// History is what was seen of an object, oldest first, and whether it is gone.
func (w *World) History(t Thing) ([]*unstructured.Unstructured, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*unstructured.Unstructured(nil), w.seen[t]...), w.gone[t]
}

// Latest is an object as it was seen last; nil before it was.
func (w *World) Latest(t Thing) *unstructured.Unstructured {
	all, gone := w.History(t)
	if len(all) == 0 || gone {
		return nil
	}
	return all[len(all)-1]
}

// All are the living objects of a kind.
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

// Await waits until check returns nil, which is called when something was seen.
// Its last error is what is missing.
func (w *World) Await(ctx context.Context, check func() error) error {
	return w.Within(ctx, w.Limits.Timeout, check)
}

// Within is Await with a limit of its own.
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

// Quietly waits for the time in which nothing may happen, and returns at once
// what did.
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

// seeing is how long a watch may take to tell what the suite wrote.
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

// Wrote is an object as the suite wrote it last.
func (w *World) Wrote(t Thing) *unstructured.Unstructured { return w.wrote[t] }

// Wanted is what the suite has written of an object, whatever others have made of
// it since; nil if the suite did not make it.
func (w *World) Wanted(t Thing) *unstructured.Unstructured { return w.wanted[t] }

// sees reports whether a version of an object was seen, or that it has gone; kinds
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

// Change writes a change of an object, whoever else writes it meanwhile.
func (w *World) Change(ctx context.Context, t Thing, change func(*unstructured.Unstructured)) error {
	return w.write(ctx, t, change, func(obj *unstructured.Unstructured, p client.Patch) error { return w.Client.Patch(ctx, obj, p) })
}

// ChangeStatus is change for the status.
func (w *World) ChangeStatus(ctx context.Context, t Thing, change func(*unstructured.Unstructured)) error {
	return w.write(ctx, t, change, func(obj *unstructured.Unstructured, p client.Patch) error {
		err := w.Client.Status().Patch(ctx, obj, p)
		if apierrors.IsNotFound(err) { // the status is no subresource
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

// Delete deletes an object; it need not go at once.
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

// End deletes all that was made, Clusters first, as they take away what belongs
// to them, and waits until it is gone. The run may have been ended before.
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

// release lets all go on that a run left paused when it was ended, and lets go
// of what the suite keeps.
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

// left names what is still there.
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

// Kept is a finalizer of the suite, which others have to leave where it is; so are
// an annotation and a label of this name.
const Kept = "conformance.capstan.dev/kept"

// Release takes the suite's finalizer away.
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
