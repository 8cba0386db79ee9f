// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// Restore creates the objects that Save, or upstream's clusterctl, wrote to a directory.
// It requires the option Target, not Source. An existing object is not changed. A journal
// at the target records the progress: an interrupted restore is resumed by running it
// again. With Rollback it deletes what was created, which is possible until all objects
// exist and their pause starts to end.
func Restore(ctx context.Context, o Options, directory string) error {
	o.complete()
	m := &mover{Options: o, target: persistent{o.Target, o.Clock, nil}}
	f, p, err := m.planDirectory(ctx, directory)
	if err != nil {
		return err
	}
	m.Planned(p)
	if o.DryRun {
		return nil
	}
	if err := m.beginRestoring(ctx, p, "directory "+directory); err != nil {
		return err
	}
	m.target = persistent{o.Target, o.Clock, m.hold}
	if err := m.restoreOn(ctx, f); err != nil {
		m.release(ctx)
		return err
	}
	return m.there.remove(ctx)
}

// planDirectory reads a directory, and plans to create all of its objects.
func (m *mover) planDirectory(ctx context.Context, directory string) (*found, *plan.Plan, error) {
	kinds, err := readKinds(ctx, m.target)
	if err != nil {
		return nil, nil, err
	}
	objects, err := readDirectory(directory)
	if err != nil {
		return nil, nil, err
	}
	f := &found{kinds: kinds, objects: objects, byUID: map[types.UID]*unstructured.Unstructured{}}
	for _, obj := range objects {
		if _, ok := kinds[obj.GroupVersionKind().GroupKind()]; !ok {
			gvk := obj.GroupVersionKind()
			return nil, nil, fmt.Errorf("%s: %w", plan.Name(obj), &missingKindError{m.target.String(), plan.Kind{GroupVersionKind: gvk}})
		}
		f.byUID[obj.GetUID()] = obj
	}
	p, err := plan.Make(plan.Input{Kinds: kinds, Objects: objects, CertificateOf: func(string, string) bool { return false }, All: true})
	if err != nil {
		return nil, nil, err
	}
	for n := range p.Items { // in the version of the file, which the server converts
		p.Items[n].Kind.GroupVersionKind = f.byUID[p.Items[n].UID].GroupVersionKind()
	}
	return f, p, nil
}

// beginRestoring resumes with an existing journal, or creates one: in the first of the
// namespaces.
func (m *mover) beginRestoring(ctx context.Context, p *plan.Plan, from string) (err error) {
	in := append(spaces(p), metav1.NamespaceDefault)[0]
	if m.there, err = openJournal(ctx, m.target, m.Clock, in); err != nil {
		return err
	}
	j := m.there
	switch {
	case j != nil && (j.From != from || j.FromID != "" || !slices.Contains([]Phase{Restoring, Finishing, RollingBack}, j.Phase)):
		return fmt.Errorf("another move is not finished: %w", &BusyError{j.Record})
	case j != nil && !equality.Semantic.DeepEqual(j.plan.Items, p.Items):
		return fmt.Errorf("%s has changed since %s began to restore it (operation %s): give it back the objects that it had, and restore again", from, j.By, j.Operation)
	case j != nil && m.Rollback && j.Phase == Finishing:
		return fmt.Errorf("%s has every object already: restore again without --rollback to finish; to have the clusters gone, delete them then", m.target)
	case j != nil:
		return m.resume(ctx)
	case m.Rollback:
		return fmt.Errorf("%s is not being restored to %s: there is nothing to roll back", from, m.target)
	}
	if err := m.ensureNamespace(ctx, in); err != nil {
		return err
	}
	now := metav1.Time{Time: m.Clock.Now()}
	m.there = &journal{plane: m.target, clock: m.Clock, plan: p, Record: Record{
		Operation: string(uuid.NewUUID()), By: m.By, Heard: &now, Started: now, Namespace: in,
		From: from, To: m.target.String(), Phase: Restoring, Step: "begin",
	}}
	return m.there.create(ctx)
}

// restoreOn does the remaining part of a restore.
func (m *mover) restoreOn(ctx context.Context, f *found) error {
	p := m.there.plan
	there, err := readState(ctx, m.target, p, m.Parallel)
	if err != nil {
		return err
	}
	switch m.there.Phase {
	case RollingBack:
		return m.undo(ctx, p, there)
	case Restoring:
		if err := m.restoreAll(ctx, p, f, there); err != nil {
			return err
		}
		if err := m.enter(ctx, Finishing); err != nil {
			return err
		}
	}
	return m.seal(ctx, m.target, p, there, false)
}

// readDirectory reads the objects of a directory.
func readDirectory(directory string) (all []*unstructured.Unstructured, err error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("read directory: %w", err)
	}
	names := map[types.UID]string{}
	for _, e := range entries {
		if !isObject(e) {
			continue
		}
		path := filepath.Join(directory, e.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		obj := &unstructured.Unstructured{}
		if text, err = sanitize.YAMLToJSON(text); err == nil {
			err = obj.UnmarshalJSON(text)
		}
		switch other := names[obj.GetUID()]; {
		case err != nil: // which may contain content of the file, and that may be a Secret
			return nil, fmt.Errorf("%s holds no object as move writes it: it is no YAML or JSON with apiVersion and kind", path)
		case obj.GetName() == "" || obj.GetUID() == "":
			return nil, fmt.Errorf("%s has no metadata.name or no metadata.uid, by which owners are found: it was not written by move", path)
		case other != "":
			return nil, fmt.Errorf("%s and %s hold objects with the same UID: take one of them away", other, path)
		}
		names[obj.GetUID()] = path
		all = append(all, obj)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("directory %s has no objects: there is no file KIND_NAMESPACE_NAME.yaml", directory)
	}
	return all, nil
}

func (m *mover) restoreAll(ctx context.Context, p *plan.Plan, f *found, there state) error {
	uids := uidsOf(p, there)
	for _, in := range spaces(p) {
		if err := m.ensureNamespace(ctx, in); err != nil {
			return err
		}
	}
	made := 0
	for _, i := range p.Items {
		if have := there.find(i); have != nil {
			if plan.MarkOf(have).Operation != m.there.Operation {
				m.Progress(fmt.Sprintf("%s is there already, and is left as it is", i))
			}
			continue
		}
		obj, err := plan.Copy(i, f.byUID[i.UID], plan.Mark{Operation: m.there.Operation}, uids)
		if err != nil {
			return err
		}
		err = m.target.Create(ctx, obj)
		if apierrors.IsAlreadyExists(err) { // the response to the first request was lost
			obj, err = m.target.Get(ctx, i.Kind, types.NamespacedName{Namespace: i.Namespace, Name: i.Name})
		}
		if err != nil {
			return err
		}
		uids[i.UID] = obj.GetUID()
		there[keyOf(i)] = obj
		made++
	}
	return m.step(ctx, "Made %d of %d objects, ending their pause", made, len(p.Items))
}

// spaces are the namespaces of a plan.
func spaces(p *plan.Plan) (all []string) {
	for _, i := range p.Items {
		if i.Namespace != "" && !slices.Contains(all, i.Namespace) {
			all = append(all, i.Namespace)
		}
	}
	slices.SortFunc(all, strings.Compare)
	return all
}
