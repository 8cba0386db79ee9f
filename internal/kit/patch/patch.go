// SPDX-License-Identifier: Apache-2.0

// Package patch writes back what a reconcile changed on an object: one merge
// patch for metadata and spec, one for status, and none when nothing changed.
package patch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// Option changes how a commit writes.
type Option func(*commit)

// Locked adds the resourceVersion to the status patch, for kinds whose condition
// list has several writers: a stale read then ends in a conflict instead of a lost
// condition.
func Locked(c *commit) { c.lockStatus = true }

// As names the field manager of the metadata and spec patch; package metadata reads
// it back to find which labels and annotations it may remove.
func As(fieldOwner string) Option {
	return func(c *commit) { c.owner = fieldOwner }
}

type commit struct {
	mgmt       client.Client
	obj        client.Object
	before     client.Object
	owner      string
	lockStatus bool
	informs    []string // status fields in addition to those that always only inform
	debounce   *StatusDebounce
	immediate  bool
	carry      func(from, to client.Object)
}

// Commit writes what a reconcile has changed on an object.
type Commit func(context.Context) error

// Snapshot copies obj as it is and returns a function that writes what has changed
// on it since. Metadata and spec go first; if that fails, status is sent only if
// the API rejected them, see RefusedError. An object that was deleted meanwhile is
// not an error. Lists are replaced whole by a merge patch, so a patch of metadata
// or spec that contains one is sent with the resourceVersion. What other writers
// have delayed of obj's status is copied to it, see Carried.
func Snapshot(c client.Client, obj client.Object, opts ...Option) Commit {
	p := &commit{mgmt: c, obj: obj, before: obj.DeepCopyObject().(client.Object)}
	for _, o := range opts {
		o(p)
	}
	p.debounce.takeAlong(obj)
	return p.write
}

// write sends what has changed, metadata and spec before status: a finalizer must
// be stored before the status reports what it protects, and a status that is locked
// needs the version that results from the first request. If the API rejects the
// first, the status is sent anyway: it explains to users why. An object whose last
// finalizer was removed has no status to write.
func (p *commit) write(ctx context.Context) error {
	p.before.SetResourceVersion(p.obj.GetResourceVersion()) // this reconcile may have written it already
	rest, fields := changed(p.before, p.obj)
	version := p.before.GetResourceVersion()
	var rejected error // of metadata and spec
	if rest {
		diff, err := difference(p.before, p.obj)
		if err != nil {
			return fmt.Errorf("compare %s %s with what was read: %w", kind(p.obj), client.ObjectKeyFromObject(p.obj), err)
		}
		delete(diff, "status")
		if version, err = p.writeRest(ctx, diff); err != nil {
			err = p.refused(fmt.Errorf("patch %s %s: %w", kind(p.obj), client.ObjectKeyFromObject(p.obj), err))
			if _, ok := errors.AsType[*RefusedError](err); !ok {
				return err
			}
			rejected = err
		}
	}
	gone := !p.obj.GetDeletionTimestamp().IsZero() && len(p.obj.GetFinalizers()) == 0 && rejected == nil
	if len(fields) == 0 || gone {
		p.settled()
		return rejected
	}
	if rejected == nil {
		if err := p.postpone(fields); err != nil {
			return err
		}
	}
	p.settled()
	return errors.Join(rejected, p.writeStatus(ctx, version, rejected != nil))
}

// writeStatus writes the status, or its conditions alone if the API rejects it: one
// value that does not fit must not hide what the other fields report. unchanged means
// that spec was not written.
func (p *commit) writeStatus(ctx context.Context, version string, unchanged bool) error {
	diff, err := difference(statusAlone(p.before), statusAlone(p.obj))
	if err != nil {
		return fmt.Errorf("compare the status of %s %s with what was read: %w", kind(p.obj), client.ObjectKeyFromObject(p.obj), err)
	}
	if unchanged {
		limitGeneration(diff, p.before.GetGeneration())
	}
	send := func(diff map[string]any) error {
		if len(diff) == 0 { // what differs is not told, such as fractions of a second
			return nil
		}
		if p.lockStatus {
			lock(diff, version)
		}
		_, err := p.send(diff, func(obj client.Object, patch client.Patch) error {
			return p.mgmt.Status().Patch(ctx, obj, patch)
		})
		if err != nil {
			err = fmt.Errorf("patch status of %s %s: %w", kind(p.obj), client.ObjectKeyFromObject(p.obj), err)
		}
		return p.refused(err)
	}
	err = send(diff)
	if _, ok := errors.AsType[*RefusedError](err); ok {
		err = errors.Join(err, send(conditionsAlone(diff)))
	}
	return err
}

// writeRest writes metadata and spec, and returns the resulting version.
func (p *commit) writeRest(ctx context.Context, diff map[string]any) (version string, err error) {
	version = p.before.GetResourceVersion()
	if len(diff) == 0 {
		return version, nil
	}
	if hasList(diff) {
		lock(diff, version)
	}
	var opts []client.PatchOption
	if p.owner != "" {
		opts = append(opts, client.FieldOwner(p.owner))
	}
	return p.send(diff, func(obj client.Object, patch client.Patch) error { return p.mgmt.Patch(ctx, obj, patch, opts...) })
}

// send patches a copy, so that the server's answer does not overwrite what is
// still to be written, and returns the new resourceVersion.
func (p *commit) send(diff map[string]any, patch func(client.Object, client.Patch) error) (string, error) {
	data, err := json.Marshal(diff)
	if err != nil {
		return "", err
	}
	result := p.obj.DeepCopyObject().(client.Object)
	if err := patch(result, client.RawPatch(types.MergePatchType, data)); err != nil {
		return p.before.GetResourceVersion(), client.IgnoreNotFound(err)
	}
	p.obj.SetResourceVersion(result.GetResourceVersion())
	return result.GetResourceVersion(), nil
}

func lock(diff map[string]any, version string) {
	meta, ok := diff["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		diff["metadata"] = meta
	}
	meta["resourceVersion"] = version
}

func hasList(v any) bool {
	switch v := v.(type) {
	case []any:
		return true
	case map[string]any:
		for _, child := range v {
			if hasList(child) {
				return true
			}
		}
	}
	return false
}

func kind(obj client.Object) string {
	if k := obj.GetObjectKind().GroupVersionKind().Kind; k != "" {
		return k
	}
	return fmt.Sprintf("%T", obj)
}

// Generation is the one that the status of obj is about: a change of the spec by
// the reconcile itself increments it, and the reconcile has observed that change
// already.
func Generation[S any](obj metav1.Object, specBefore *S, spec S) int64 {
	if specBefore != nil && !equality.Semantic.DeepEqual(*specBefore, spec) {
		return obj.GetGeneration() + 1
	}
	return obj.GetGeneration()
}

// Record records again what manager has set on obj where managedFields have lost
// it, so that it can still be removed when it is no longer desired: the currently
// desired keys count as those that were set. It reads the other entries from the
// server behind live, since a cache does not keep all. Where nothing is lost, it
// does nothing; obj is not changed, and one that is older than the server's waits
// for the next reconcile.
func Record(ctx context.Context, c client.Client, live client.Reader, obj client.Object, manager string, want metadata.Want) error {
	if !metadata.Lost(obj, manager) || !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	what := fmt.Sprintf("rewrite managedFields of %s %s", gvk.Kind, client.ObjectKeyFromObject(obj))
	now := obj.DeepCopyObject().(client.Object)
	if err := live.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if now.GetUID() != obj.GetUID() || now.GetResourceVersion() != obj.GetResourceVersion() || !metadata.Lost(now, manager) {
		return nil
	}
	entries, err := metadata.Recorded(now, manager, gvk.GroupVersion().String(), want)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": now.GetResourceVersion(), "managedFields": entries}})
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, now, client.RawPatch(types.MergePatchType, body), client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
