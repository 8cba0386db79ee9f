// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/simulated/bootstrap"
	"github.com/capstan-dev/capstan/internal/access/simulated/etcd"
)

// What lies where below Options.Dir:
//
//	<cluster UID>/cluster.json         a record
//	<cluster UID>/objects.jsonl        the API server's journal
//	<cluster UID>/machine-<UID>.json   a machine
const (
	clusterFile   = "cluster.json"
	journalFile   = "objects.jsonl"
	machinePrefix = "machine-"
)

// record is what is kept of a cluster, besides its objects and machines. It
// holds private keys.
type record struct {
	Namespace string                 `json:"namespace"`
	Name      string                 `json:"name"`
	UID       types.UID              `json:"uid"`
	Address   netip.AddrPort         `json:"address"`
	Host      string                 `json:"host,omitempty"` // how clients name the address, if not by it
	Faults    []infrav1.ClusterFault `json:"faults,omitempty"`
	Machines  int                    `json:"machines"`          // how many there ever were
	Founder   types.UID              `json:"founder,omitempty"` // the machine whose kubeadm init made it
	External  bool                   `json:"externalEtcd,omitempty"`
	PKI       bootstrap.PKI          `json:"pki"`
	Etcd      etcd.State             `json:"etcd"`
}

func (r record) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

func (b *Backend) clusterDir(uid types.UID) string { return filepath.Join(b.dir, fileName(uid)) }

// fileName makes a UID, which somebody else chose, the name of a file.
func fileName(uid types.UID) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, string(uid))
}

// scan finds the clusters kept in a directory, and makes it if it is missing.
// One that cannot be read is logged and left out: its own callers hear of it.
func scan(dir string, log logr.Logger) (map[types.NamespacedName]record, error) {
	if dir == "" {
		return nil, errors.New("no directory is given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	known := map[types.NamespacedName]record{}
	for _, e := range entries {
		var r record
		err := readJSON(filepath.Join(dir, e.Name(), clusterFile), &r)
		if errors.Is(err, fs.ErrNotExist) {
			continue // not ours, or a cluster that was never finished making
		}
		if err != nil {
			log.Error(err, "Leaving out a simulated cluster", "directory", e.Name())
			continue
		}
		known[r.key()] = r
	}
	return known, nil
}

// readMachines finds the machines kept in a cluster's directory.
func readMachines(dir string) ([]*machine, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []*machine
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), machinePrefix) || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		m := &machine{}
		if err := readJSON(filepath.Join(dir, e.Name()), m); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func machineFile(uid types.UID) string { return machinePrefix + fileName(uid) + ".json" }

// readJSON leaves out what a parser would quote: it may be a key.
func readJSON(name string, into any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if json.Unmarshal(data, into) != nil {
		return fmt.Errorf("%s is damaged: delete its directory to give the cluster up", name)
	}
	return nil
}

// writeJSON replaces a file in one step; nobody else may read it. Like the
// journals it outlives the process, not a loss of power.
func writeJSON(name string, from any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(name), err)
	}
	next := name + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return errors.Join(err, removeFile(next))
	}
	return os.Rename(next, name)
}

func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// removeDir takes the record away first: a half removed cluster is none.
func removeDir(dir string) error {
	return errors.Join(removeFile(filepath.Join(dir, clusterFile)), os.RemoveAll(dir))
}
