// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// fileName is the name of the file in which upstream's clusterctl stores an object.
func fileName(i plan.Item) string {
	return fmt.Sprintf("%s_%s_%s.yaml", i.Kind.Kind, i.Namespace, i.Name)
}

// Save writes the objects that would move to files of a directory, which Restore and
// upstream's clusterctl can read. It requires the option Source, not Target. Clusters are
// paused meanwhile, and nothing is deleted.
func Save(ctx context.Context, o Options, directory string) error {
	o.complete()
	m := &mover{Options: o, source: persistent{o.Source, o.Clock, nil}}
	to := "directory " + directory
	var err error
	if m.here, err = openJournal(ctx, m.source, o.Clock, o.Namespace); err != nil {
		return err
	}
	switch {
	case m.here != nil && (m.here.Phase != Saving || m.here.To != to):
		return fmt.Errorf("another move is not finished: %w", &BusyError{m.here.Record})
	case m.here != nil && o.DryRun:
		_, err = m.prepare(ctx)
		return err
	case m.here != nil:
		err = m.resume(ctx)
	case o.Rollback:
		return fmt.Errorf("namespace %s of %s is not being saved to %s: there is nothing to roll back", o.Namespace, m.source, directory)
	default:
		err = m.startSaving(ctx, directory, to)
	}
	if err != nil || m.here == nil {
		return err
	}
	m.source = persistent{o.Source, o.Clock, m.hold}
	if m.here.Phase == Saving && !o.Rollback {
		err = m.save(ctx, directory)
	}
	// Also after an error: nothing was deleted, and no later run has to end the pause.
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

// checkDirectory refuses a directory with other objects: a restore would create them too.
func checkDirectory(directory string, p *plan.Plan) error {
	objects := map[string]plan.Item{}
	for _, i := range p.Items {
		if other, is := objects[fileName(i)]; is {
			return fmt.Errorf("%s of group %s and of group %s have the same file %s: clusterctl's names of files allow only one of them", i, other.Kind.Group, i.Kind.Group, fileName(i))
		}
		objects[fileName(i)] = i
	}
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read directory: %w", err)
	}
	for _, e := range entries {
		if _, moves := objects[e.Name()]; isObject(e) && !moves {
			return fmt.Errorf("directory %s has %s, which does not move: give an empty directory", directory, e.Name())
		}
	}
	return nil
}

func isObject(e os.DirEntry) bool {
	return !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name()))
}

func (m *mover) save(ctx context.Context, directory string) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
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
	_, working := p.Awaited(f.byUID)
	if err := m.awaitControllers(ctx, f, working, noticed); err != nil {
		return err
	}
	if f, p, err = m.read(ctx); err != nil {
		return err
	}
	if err := checkDirectory(directory, p); err != nil {
		return err
	}
	if err := m.step(ctx, "Writing %d objects to %s", len(p.Items), directory); err != nil {
		return err
	}
	for _, i := range p.Items {
		text, err := f.byUID[i.UID].MarshalJSON()
		if err == nil {
			err = atomicfile.Write(filepath.Join(directory, fileName(i)), text)
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
	if err := m.seal(ctx, m.source, m.here.plan, have, true); err != nil {
		return err
	}
	return m.here.remove(ctx)
}
