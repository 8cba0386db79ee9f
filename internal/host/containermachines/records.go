// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// The files and folders of a backend.
const (
	subnetFile  = "subnet.json"
	clustersDir = "clusters"
	machinesDir = "machines"
	machineFile = "machine.json"
	rootDir     = "root"
	varDir      = "var"
)

// subnetRecord is where machines have their addresses.
type subnetRecord struct {
	Subnet netip.Prefix `json:"subnet"`
}

// clusterRecord is what is kept of a cluster.
type clusterRecord struct {
	Namespace string               `json:"namespace"`
	Name      string               `json:"name"`
	ID        localinfra.ID        `json:"id"`
	Object    types.NamespacedName `json:"object"`
	Port      uint16               `json:"port"` // of the endpoint, at the host's address in the subnet
}

func (r clusterRecord) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// machineRecord is what is kept of a machine. It holds no secret.
type machineRecord struct {
	Namespace    string        `json:"namespace"`
	Name         string        `json:"name"`
	Cluster      string        `json:"cluster"`
	ClusterID    localinfra.ID `json:"clusterID"`
	ProviderID   string        `json:"providerID"`
	ControlPlane bool          `json:"controlPlane,omitempty"`
	Address      netip.Addr    `json:"address"`
	MachineID    string        `json:"machineID"`
	BootID       string        `json:"bootID"`
	Image        string        `json:"image"`             // the ID of its node image
	Version      string        `json:"version,omitempty"` // of Kubernetes, if it was updated in place
	Created      bool          `json:"created"`           // its container was created once
	Began        time.Time     `json:"began,omitzero"`    // when its bootstrap data was last started
	Done         bool          `json:"done,omitempty"`    // its bootstrap data has run
	Failed       string        `json:"failed,omitempty"`  // why that failed
}

func (r machineRecord) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// containerName names the container of a machine: readable for people, and unique.
func containerName(machine string, cluster localinfra.ID, providerID string) string {
	sum := sha256.Sum256([]byte(string(cluster) + " " + providerID))
	readable := strings.ReplaceAll(strings.ToLower(machine), ".", "-")
	if len(readable) > 40 {
		readable = readable[:40]
	}
	return strings.Trim(readable, "-") + "-" + hex.EncodeToString(sum[:5])
}

// readJSON reads what writeJSON wrote. Without the file, found is false.
func readJSON(name string, into any) (found bool, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return false, fmt.Errorf("%s is damaged: put a copy of the file back, or remove it and delete the Cluster", name)
	}
	return true, nil
}

// writeJSON replaces a file in one step; the new one is on the disk first. No other
// user may read it.
func writeJSON(name string, from any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(name), err)
	}
	return atomicfile.Write(name, text)
}

func removeFile(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
