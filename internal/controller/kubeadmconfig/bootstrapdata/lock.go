// SPDX-License-Identifier: Apache-2.0

package bootstrapdata

import (
	"encoding/json"
	"strings"
)

// The init lock is a ConfigMap that exactly one control plane machine of a Cluster can
// create: the one that runs kubeadm init. It is deleted when the first other machine
// joins.
const (
	lockSuffix = "-lock"

	// LockKey is the key of the lock's holder.
	LockKey = "lock-information"
)

type lockInformation struct {
	MachineName string `json:"machineName"`
}

// LockName is the name of a Cluster's lock.
func LockName(cluster string) string { return cluster + lockSuffix }

// IsLock reports whether a ConfigMap is called as locks are.
func IsLock(name string) bool { return strings.HasSuffix(name, lockSuffix) }

// LockOf is the content of the lock of a Machine.
func LockOf(machine string) (string, error) {
	text, err := json.Marshal(lockInformation{MachineName: machine})
	return string(text), err
}

// HolderOf is the name of the Machine that a lock names; "" if it names none.
func HolderOf(lock string) string {
	var info lockInformation
	if err := json.Unmarshal([]byte(lock), &info); err != nil {
		return ""
	}
	return info.MachineName
}
