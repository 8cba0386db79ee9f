// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/journal"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
	"github.com/capstan-dev/capstan/internal/simulated/etcd"
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

// lost is why a cluster cannot be opened again, whatever is tried.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// damaged says what there is to do about a file. It leaves out what a parser
// would quote: it may be a key.
func damaged(err error) error {
	return lost{fmt.Errorf("%w: put a copy of the file back, or delete the Cluster to give it up", err)}
}

// readJSON reads what writeJSON wrote; files of earlier versions have no
// checksum.
func readJSON(name string, into any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, sum, found := bytes.Cut(data, []byte("\n"))
	if found && string(sum) != checksum(text) || json.Unmarshal(text, into) != nil {
		return damaged(fmt.Errorf("%s: %w", name, journal.ErrDamaged))
	}
	return nil
}

// checksum is the second line of a file, below its JSON.
func checksum(text []byte) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// writeJSON replaces a file in one step; nobody else may read it. Like the
// journals it outlives the process, not a loss of power.
func writeJSON(name string, from any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(name), err)
	}
	data = append(append(data, '\n'), checksum(data)...)
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

// mustExist is an error if a file that others belong to is gone.
func mustExist(name string) error {
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(name)
	}
	return err
}

func missing(name string) error { return damaged(fmt.Errorf("%s: the file is missing", name)) }

// removeDir takes the record away first: a half removed cluster is none.
func removeDir(dir string) error {
	return errors.Join(removeFile(filepath.Join(dir, clusterFile)), os.RemoveAll(dir))
}
