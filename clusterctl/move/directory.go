// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/internal/kit/pki"
)

// fileName is where upstream's clusterctl keeps an object.
func fileName(i plan.Item) string {
	return fmt.Sprintf("%s_%s_%s.yaml", i.Kind.Kind, i.Namespace, i.Name)
}

// Save writes what would move to files of a directory, which Restore and upstream's
// clusterctl read. Of the options it needs Source, not Target. Clusters are paused
// meanwhile, and nothing is deleted.
func Save(ctx context.Context, o Options, directory string) error {
	o.complete()
	m := &mover{Options: o, source: persistent{o.Source, o.Clock}}
	to := "directory " + directory
	var err error
	if m.here, err = openJournal(ctx, m.source, o.Clock, o.Namespace); err != nil {
		return err
	}
	switch {
	case m.here != nil && (m.here.Phase != Saving || m.here.To != to):
		return fmt.Errorf("another move is not finished: %w", &BusyError{m.here.Record})
	case m.here != nil:
		err = m.takeUp(ctx)
	case o.Rollback:
		return fmt.Errorf("namespace %s of %s is not being saved to %s: there is nothing to roll back", o.Namespace, m.source, directory)
	default:
		err = m.startSaving(ctx, directory, to)
	}
	if err != nil || m.here == nil {
		return err
	}
	m.source = held{m.source, &m.holding, m.hold}
	if m.here.Phase == Saving && !o.Rollback {
		err = m.save(ctx, directory)
	}
	// Also if something went wrong: nothing was deleted, and nobody has to come back.
	return errors.Join(err, m.endSaving(context.WithoutCancel(ctx)))
}

func (m *mover) startSaving(ctx context.Context, directory, to string) error {
	f, err := discover(ctx, m.source, m.Namespace, m.Parallel)
	if err != nil {
		return err
	}
	p, err := f.plan(m.Namespace)
	if err == nil {
		err = p.Ready(f.objects)
	}
	if err == nil && len(p.Items) == 0 {
		err = fmt.Errorf("namespace %s of %s has nothing to move", m.Namespace, m.source)
	}
	if err == nil {
		err = checkDirectory(directory, p)
	}
	if err != nil {
		return err
	}
	m.Planned(p)
	if m.DryRun {
		return nil
	}
	now := metav1.Time{Time: m.Clock.Now()}
	m.here = &journal{plane: m.source, clock: m.Clock, plan: p, Record: Record{
		Operation: string(uuid.NewUUID()), By: m.By, Heard: &now, Started: now, Namespace: m.Namespace,
		From: m.source.String(), To: to, Phase: Saving, Step: "begin",
	}}
	return m.here.create(ctx)
}

// checkDirectory refuses a directory with other objects: who restores it would get
// them too.
func checkDirectory(directory string, p *plan.Plan) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	for _, e := range entries {
		if isObject(e) && !slices.ContainsFunc(p.Items, func(i plan.Item) bool { return fileName(i) == e.Name() }) {
			return fmt.Errorf("directory %s has %s, which does not move: give an empty directory", directory, e.Name())
		}
	}
	return nil
}

func isObject(e os.DirEntry) bool {
	return !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name()))
}

func (m *mover) save(ctx context.Context, directory string) error {
	f, p, err := m.read(ctx)
	if err != nil {
		return err
	}
	noticed := m.Clock.Now().Add(noticeLasts)
	if _, err := m.pause(ctx, p, f); err != nil {
		return err
	}
	if _, err := m.awaitProviders(ctx, p, f); err != nil {
		return err
	}
	_, working := waitsFor(p, f)
	if err := m.awaitControllers(ctx, f, working, noticed); err != nil {
		return err
	}
	if f, p, err = m.read(ctx); err != nil {
		return err
	}
	if err := m.step(ctx, "Writing %d objects to %s", len(p.Items), directory); err != nil {
		return err
	}
	for _, i := range p.Items {
		text, err := f.byUID[i.UID].MarshalJSON()
		if err == nil {
			err = pki.WriteFile(filepath.Join(directory, fileName(i)), text)
		}
		if err != nil {
			return fmt.Errorf("save %s: %w", i, err)
		}
	}
	return nil
}

// endSaving ends the pause.
func (m *mover) endSaving(ctx context.Context) error {
	have, err := readState(ctx, m.source, m.here.plan, m.Parallel)
	if err != nil {
		return err
	}
	if err := m.seal(ctx, m.source, m.here.plan, have); err != nil {
		return err
	}
	return m.here.remove(ctx)
}

// fromDirectory is the operation of objects that Restore makes: whoever restores
// again, whatever became of the first, goes on with them.
const fromDirectory = "from-directory"

// Restore makes the objects that Save, or upstream's clusterctl, wrote to a directory.
// Of the options it needs Target, not Source. What is there already is left as it is.
// With Rollback it deletes what a Restore that was interrupted has made.
func Restore(ctx context.Context, o Options, directory string) error {
	o.complete()
	m := &mover{Options: o, target: persistent{o.Target, o.Clock}, here: &journal{}}
	m.here.Operation = fromDirectory
	kinds, err := readKinds(ctx, m.target)
	if err != nil {
		return err
	}
	objects, err := readDirectory(directory)
	if err != nil {
		return err
	}
	f := &found{kinds: kinds, objects: objects, byUID: map[types.UID]*unstructured.Unstructured{}}
	for _, obj := range objects {
		if _, ok := kinds[obj.GroupVersionKind().GroupKind()]; !ok {
			gvk := obj.GroupVersionKind()
			return fmt.Errorf("%s: %w", plan.Name(obj), &missingKindError{m.target.String(), plan.Kind{GroupVersionKind: gvk}})
		}
		f.byUID[obj.GetUID()] = obj
	}
	p, err := plan.Make(plan.Input{Kinds: kinds, Objects: objects, CertificateOf: func(string, string) bool { return false }, All: true})
	if err != nil {
		return err
	}
	for n := range p.Items { // in the version of the file, which the server converts
		p.Items[n].Kind.GroupVersionKind = f.byUID[p.Items[n].UID].GroupVersionKind()
	}
	m.Planned(p)
	if o.DryRun {
		return nil
	}
	there, err := readState(ctx, m.target, p, m.Parallel)
	if err != nil {
		return err
	}
	if o.Rollback {
		return m.forget(ctx, p, there)
	}
	return m.restoreAll(ctx, p, f, there)
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
		if text, err = yaml.YAMLToJSON(text); err == nil {
			err = obj.UnmarshalJSON(text)
		}
		switch other := names[obj.GetUID()]; {
		case err != nil: // which may show what the file holds, and that may be a Secret
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
		if there.find(i) != nil {
			m.Progress(fmt.Sprintf("%s is there already, and is left as it is", i))
			continue
		}
		obj, err := plan.Copy(i, f.byUID[i.UID], plan.Mark{Operation: fromDirectory}, uids)
		if err != nil {
			return err
		}
		err = m.target.Create(ctx, obj)
		if apierrors.IsAlreadyExists(err) { // the answer to the first request got lost
			obj, err = m.target.Get(ctx, i.Kind, types.NamespacedName{Namespace: i.Namespace, Name: i.Name})
		}
		if err != nil {
			return fmt.Errorf("%w\nmade so far: %d of %d objects, which are paused; the same command goes on, and with --rollback they go", err, made, len(p.Items))
		}
		uids[i.UID] = obj.GetUID()
		there[keyOf(i)] = obj
		made++
	}
	m.Progress(fmt.Sprintf("Made %d of %d objects, ending their pause", made, len(p.Items)))
	return m.seal(ctx, m.target, p, there)
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

// forget deletes what was made from a directory, and is still paused.
func (m *mover) forget(ctx context.Context, p *plan.Plan, there state) error {
	for _, i := range slices.Backward(p.Items) {
		obj := there.find(i)
		if obj == nil || plan.MarkOf(obj).Operation != fromDirectory {
			continue
		}
		if err := take(ctx, m.target, i.Kind, obj, func(*unstructured.Unstructured) error { return nil }); err != nil {
			return err
		}
		m.Progress(fmt.Sprintf("%s is deleted", i))
	}
	return nil
}
