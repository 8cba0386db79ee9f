// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// names assigns names to new objects.
type names struct {
	cluster *clusterv1.Cluster
	leaving []string          // kind/name of objects that are being deleted
	taken   map[string]string // the owner of a name, by kind/name
}

// name is the input for the name of a new object.
type name struct {
	kind     string // of the object
	text     string // the template; empty for the default
	subject  NameSubject
	topology string   // the name in the topology
	parts    []string // input of the random part, in addition to the Cluster
}

// pick generates a name that no object being deleted has: objects with the same name
// would be mistaken for each other.
func (n *names) pick(of name) (string, error) {
	last := ""
	for i := 0; ; i++ {
		random := RandomName(n.cluster.UID, append(slices.Clone(of.parts), strconv.Itoa(i))...)
		made, err := RenderName(of.text, of.subject, NameData{Cluster: n.cluster.Name, Topology: of.topology, Random: random})
		if err != nil {
			return "", fmt.Errorf("its name: %w", err)
		}
		if wrong := validation.IsDNS1123Subdomain(made); len(wrong) > 0 {
			return "", fmt.Errorf("it cannot be named %q: %s: correct naming.template in the ClusterClass", made, strings.Join(wrong, ", "))
		}
		if !slices.Contains(n.leaving, of.kind+"/"+made) {
			return made, nil
		}
		if made == last {
			return "", fmt.Errorf("the %s %s with the same name is still being deleted: a new one is created after that", of.kind, made)
		}
		last = made
	}
}

// take reserves a name for an object, so that no other of the kind can have it.
func (n *names) take(kind, name, who string) error {
	key := kind + "/" + name
	if other := n.taken[key]; other != "" {
		return errors.New("its name " + name + " is that of " + other + ": have naming.template of its class use the name in the topology, or .random")
	}
	n.taken[key] = who
	return nil
}
