// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/containers/network"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// EnsureNetwork creates a network if it does not exist; after a boot of the host it
// creates it again. A network does not change: it is an error if one of that name
// has another address, or if the host already uses the addresses.
func (l *Launcher) EnsureNetwork(ctx context.Context, want Network) error {
	err := want.Validate()
	if err == nil {
		l.networks.Lock()
		defer l.networks.Unlock()
		err = l.ensureNetwork(want)
	}
	if err != nil {
		return fmt.Errorf("ensure network %s: %w", want.Name, err)
	}
	return ctx.Err()
}

func (l *Launcher) ensureNetwork(want Network) error {
	have, err := l.network(want.Name)
	made := errors.Is(err, os.ErrNotExist)
	if err != nil && !made {
		return err
	}
	if !made && have != want {
		return fmt.Errorf("it has address %s and MTU %d already: remove it first", have.Address, have.MTU)
	}
	text, err := json.Marshal(want)
	if err == nil {
		// Recorded first, it is removed after an interruption at any step.
		err = atomicfile.Write(l.networkFile(want.Name), text)
	}
	if err != nil {
		return err
	}
	l.reached("network noted")
	err = l.names.Ensure(network.Bridge{
		Name: l.names.Bridge(want.Name), Table: l.names.Table(want.Name), Address: want.Address, MTU: want.MTU,
	})
	if err == nil {
		l.reached("bridge made")
		err = l.forwarding.Need(l.identity, l.dir)
	}
	if err != nil && made {
		err = errors.Join(err, l.removeNetwork(want.Name))
	}
	return err
}

func (l *Launcher) networkFile(name string) string {
	return filepath.Join(l.dir, networksDir, name+".json")
}

// network reads the desired state of a network.
func (l *Launcher) network(name string) (Network, error) {
	var n Network
	text, err := os.ReadFile(l.networkFile(name))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return n, fmt.Errorf("read %s: %w", l.networkFile(name), err)
	}
	return n, nil
}

// Networks returns the networks of the folder, in the order of their names.
func (l *Launcher) Networks() ([]Network, error) {
	names, err := l.networkNames()
	var all []Network
	for _, name := range names {
		n, e := l.network(name)
		if e == nil {
			all = append(all, n)
		} else if !errors.Is(e, os.ErrNotExist) { // otherwise it is being removed
			err = errors.Join(err, e)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	return all, nil
}

func (l *Launcher) networkNames() (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(l.dir, networksDir))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && label.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// RemoveNetwork removes a network, which may not exist. It returns ErrNetworkInUse
// while a container is attached to it. When the last network of the host is
// removed, the changed settings of the host are restored.
func (l *Launcher) RemoveNetwork(ctx context.Context, name string) error {
	if !label.MatchString(name) {
		return fmt.Errorf("remove network %s: it is no DNS label, so there is none", name)
	}
	l.networks.Lock()
	defer l.networks.Unlock()
	err := l.unused(name)
	if err == nil {
		err = l.removeNetwork(name)
	}
	if err != nil {
		return fmt.Errorf("remove network %s: %w", name, err)
	}
	return ctx.Err()
}

func (l *Launcher) unused(network string) error {
	names, err := l.containers()
	if err != nil {
		return err
	}
	for _, name := range names {
		spec, err := l.spec(name)
		if err == nil && spec.Network != nil && spec.Network.Network == network {
			return fmt.Errorf("%w: remove container %s first", ErrNetworkInUse, name)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// removeNetwork deletes the record of a network last, so that an interrupted
// removal is repeated.
func (l *Launcher) removeNetwork(name string) error {
	if err := l.names.Remove(l.names.Bridge(name), l.names.Table(name)); err != nil {
		return err
	}
	l.reached("bridge removed")
	names, err := l.networkNames()
	if err != nil {
		return err
	}
	if len(names) == 0 || len(names) == 1 && names[0] == name {
		if err := l.forwarding.Leave(l.identity); err != nil {
			return err
		}
	}
	if err := os.Remove(l.networkFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return atomicfile.SyncDir(filepath.Join(l.dir, networksDir))
}
