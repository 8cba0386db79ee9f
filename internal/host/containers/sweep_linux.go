// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/containers/network"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// Sweep removes everything that carries the identity of the folder and belongs to
// no container or network of it, such as leftovers of an interrupted process. It
// ends processes that have no container in the folder.
func (l *Launcher) Sweep(ctx context.Context) error {
	err := errors.Join(l.sweepFolders(ctx), l.sweepContainers(ctx), l.sweepNetworks())
	if err != nil {
		return fmt.Errorf("sweep containers of %s: %w", l.dir, err)
	}
	return nil
}

// sweepFolders removes containers whose creation or removal was interrupted.
func (l *Launcher) sweepFolders(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(l.dir, containersDir))
	for _, e := range entries {
		name, isNew := strings.CutPrefix(e.Name(), newPrefix)
		if !isNew {
			var isOld bool
			if name, isOld = strings.CutPrefix(e.Name(), oldPrefix); !isOld {
				continue
			}
		}
		done, e2 := l.work(ctx, name) // otherwise it is being created right now
		if e2 != nil {
			return errors.Join(err, e2)
		}
		l.discard(filepath.Join(l.dir, containersDir, e.Name()))
		done()
	}
	return err
}

// discard removes a folder that is no container's, or leaves it under another name:
// it must not prevent others from running.
func (l *Launcher) discard(folder string) {
	if err := filetree.Discard(folder); err != nil {
		l.options.Log.Error(err, "Leaving files of a removed container", "path", folder)
	}
}

// sweepContainers removes what containers that do not run have outside the folder.
// It lists links and groups before the containers: those whose container is not
// listed afterwards have none.
func (l *Launcher) sweepContainers(ctx context.Context) error {
	groups, err := l.ownGroups()
	links, _, lerr := l.names.Links()
	names, nerr := l.containers()
	if err := errors.Join(err, lerr, nerr); err != nil {
		return err
	}
	known := map[string]bool{}
	var errs []error
	for _, name := range names {
		known[l.names.Link(name)] = true
	}
	for _, name := range union(names, groups) {
		done, err := l.work(ctx, name)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		alive, err := l.alive(name) // not without a folder
		if err == nil && !alive {
			err = l.tidy(name)
		}
		errs = append(errs, err)
		done()
	}
	for _, link := range links {
		if !known[link] {
			errs = append(errs, network.Disconnect(link))
		}
	}
	return errors.Join(errs...)
}

// union returns each name once.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// ownGroups returns the containers that have control groups.
func (l *Launcher) ownGroups() ([]string, error) {
	if !l.scopes {
		names, err := l.groups.Sub(groupBase(l.identity))
		return slices.DeleteFunc(names, func(n string) bool { return !label.MatchString(n) }), err
	}
	scopes, err := l.groups.Sub("/" + scopeSlice)
	var names []string
	for _, s := range scopes {
		if name, ok := containerOfScope(l.identity, s); ok && label.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

func (l *Launcher) sweepNetworks() error {
	l.networks.Lock()
	defer l.networks.Unlock()
	names, err := l.networkNames()
	tables, terr := l.names.Tables()
	_, bridges, lerr := l.names.Links()
	errs := []error{err, terr, lerr}
	if errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}
	known := map[string]bool{}
	for _, name := range names {
		known[l.names.Bridge(name)] = true
	}
	for _, name := range tables {
		if !slices.Contains(names, name) {
			errs = append(errs, l.names.Remove(l.names.Bridge(name), l.names.Table(name)))
		}
	}
	for _, bridge := range bridges {
		if !known[bridge] {
			errs = append(errs, network.Disconnect(bridge))
		}
	}
	if len(names) == 0 {
		errs = append(errs, l.forwarding.Leave(l.identity))
	}
	return errors.Join(errs...)
}
