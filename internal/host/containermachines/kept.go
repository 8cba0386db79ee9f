// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// Kept is a machine that a folder has, whether a process runs it or not.
type Kept struct {
	types.NamespacedName
	Container string
}

// List returns the machines that are kept in Options.Dir, in the order of their
// containers' names. It changes nothing.
func List(dir string) (all []Kept, err error) {
	names, err := filepath.Glob(filepath.Join(dir, machinesDir, "*", machineFile))
	if err != nil {
		return nil, err
	}
	if _, err := os.ReadDir(dir); err != nil { // Glob does not report this error
		return nil, fmt.Errorf("list container machines: %w", err)
	}
	for _, name := range names {
		var r machineRecord
		if found, err := readJSON(name, &r); err != nil || !found {
			return nil, err
		}
		all = append(all, Kept{r.key(), filepath.Base(filepath.Dir(name))})
	}
	return all, nil
}
