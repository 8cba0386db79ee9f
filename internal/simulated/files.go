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

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
	"github.com/capstan-dev/capstan/internal/simulated/etcd"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
)

// The files below the folder of a cluster:
//
//	cluster.json         a record
//	objects.jsonl        the API server's journal
//	machine-<UID>.json   a machine
const (
	clusterFile   = "cluster.json"
	journalFile   = "objects.jsonl"
	machinePrefix = "machine-"

	// formatVersion is the version of the files. State of a later version is not changed.
	formatVersion = 1
)

// record is the stored state of a cluster without objects and machines; it has private keys.
type record struct {
	Version   int                    `json:"version,omitempty"`
	Namespace string                 `json:"namespace"`
	Name      string                 `json:"name"`
	UID       types.UID              `json:"uid"`
	Address   netip.AddrPort         `json:"address"`
	Host      string                 `json:"host,omitempty"` // how clients name the address, if not by it
	Faults    []infrav1.ClusterFault `json:"faults,omitempty"`
	Machines  int                    `json:"machines"`          // how many there ever were
	Founder   types.UID              `json:"founder,omitempty"` // the machine whose kubeadm init created it
	External  bool                   `json:"externalEtcd,omitempty"`
	PKI       bootstrap.PKI          `json:"pki"`
	Serving   certs.Pair             `json:"serving,omitzero"` // what its address shows
	Etcd      etcd.State             `json:"etcd"`
}

func (r record) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

func (b *Backend) clusterDir(uid types.UID) string { return b.dir.Folder(string(uid)) }

// readRecord reads the record of a cluster; nothing if its creation was not finished.
func readRecord(dir string, want clusterSpec) (r record, err error) {
	file := filepath.Join(dir, clusterFile)
	err = readJSON(file, &r)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		machines, err := filepath.Glob(filepath.Join(dir, machinePrefix+"*.json"))
		if err == nil && (want.Made || len(machines) > 0) {
			err = missing(file)
		}
		return record{}, err
	case err != nil:
		return record{}, err
	case r.Version > formatVersion:
		return record{}, lost{fmt.Errorf("%s was written by a later version of this program: start that one", file)}
	case r.UID != want.UID:
		return record{}, lost{fmt.Errorf("%s is a copy of what is kept of the cluster with the identity %s: remove it, or delete the Cluster", file, r.UID)}
	}
	return r, nil
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

func machineFile(uid types.UID) string {
	return machinePrefix + statedir.FileName(string(uid)) + ".json"
}

// lost is why a cluster can never be opened again.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// damaged adds the remedy to an error about a file. It omits what a parser would
// quote: it may be a key.
func damaged(err error) error {
	return lost{fmt.Errorf("%w: put a copy of the file back, or delete the Cluster to give it up", err)}
}

// readJSON reads a file of writeJSON; files of earlier versions have no checksum.
func readJSON(name string, into any) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, sum, found := bytes.Cut(data, []byte("\n"))
	if found && string(sum) != checksum(text) || json.Unmarshal(text, into) != nil {
		return damaged(fmt.Errorf("%s: %w", name, store.ErrDamaged))
	}
	return nil
}

// checksum is the second line of a file, below its JSON.
func checksum(text []byte) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// unfinished is at the end of the name of a file that is being written, also of those of
// package store.
const unfinished = ".new"

// sweep removes what was being written when the process that wrote it was killed.
func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), unfinished) {
			if err := removeFile(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeJSON replaces a file in one step; no other user may read it. With sync the
// replacement is on the disk first: whenever power is lost, one of the two exists.
func writeJSON(name string, from any, sync bool) error {
	data, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(name), err)
	}
	data = append(append(data, '\n'), checksum(data)...)
	next := name + unfinished
	err = os.WriteFile(next, data, 0o600)
	if err == nil && sync {
		err = statedir.Sync(next)
	}
	if err == nil {
		err = os.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, removeFile(next))
	}
	return nil
}

func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mustExist returns an error if a file that others belong to does not exist.
func mustExist(name string) error {
	_, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing(name)
	}
	return err
}

func missing(name string) error { return damaged(fmt.Errorf("%s: the file is missing", name)) }

// NameOf is the namespace and name of the cluster that is kept in a folder; empty
// if that cannot be read.
func NameOf(dir string) string {
	var r record
	if readJSON(filepath.Join(dir, clusterFile), &r) != nil {
		return ""
	}
	return r.key().String()
}
