// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
)

// NameSubject is what a template of names can refer to in addition to .cluster.name and
// .random.
type NameSubject string

// Subjects: nothing more for infrastructure and control plane, and the name in the
// topology for workers.
const (
	NameOfCluster           NameSubject = ""
	NameOfMachineDeployment NameSubject = "machineDeployment"
	NameOfMachinePool       NameSubject = "machinePool"
)

const (
	longest     = 63 // names are values of labels
	shorter     = 58 // of a longer one, followed by as many random characters as fit
	maxTemplate = 1024
)

// NameData is the input of a name.
type NameData struct {
	Cluster  string
	Topology string // the name of workers in the topology
	Random   string // five characters that are unique to the object
}

// defaults are the templates for classes without one.
var defaults = map[NameSubject]string{
	NameOfCluster:           "{{ .cluster.name }}-{{ .random }}",
	NameOfMachineDeployment: "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}-{{ .random }}",
	NameOfMachinePool:       "{{ .cluster.name }}-{{ .machinePool.topologyName }}-{{ .random }}",
}

// safe are characters that form no words and are not mistaken for each other.
const safe = "bcdfghjklmnpqrstvwxz2456789"

// RandomName returns five characters that look random but are stable: they are derived from
// the UID of a Cluster and from parts. A controller that creates an object again,
// because it does not know whether the creation succeeded, finds the existing one.
func RandomName(uid types.UID, parts ...string) string {
	var text []byte
	for _, part := range append([]string{string(uid)}, parts...) {
		text = fmt.Appendf(text, "%d %s\n", len(part), part)
	}
	sum := sha256.Sum256(text)
	n := binary.BigEndian.Uint64(sum[:])
	out := make([]byte, longest-shorter)
	for i := range out {
		out[i] = safe[n%uint64(len(safe))]
		n /= uint64(len(safe))
	}
	return string(out)
}

// RenderName generates a name; an empty text is the default of the subject. A name that is
// too long is cut, and ends in the random characters.
func RenderName(text string, s NameSubject, d NameData) (string, error) {
	text = cmp.Or(text, defaults[s])
	parsed, err := gotemplate.ParseName(text)
	if err != nil {
		return "", err
	}
	values := map[string]any{"cluster": map[string]any{"name": d.Cluster}, "random": d.Random}
	if s != NameOfCluster {
		values[string(s)] = map[string]any{"topologyName": d.Topology}
	}
	budget := gotemplate.PerName
	name, err := parsed.Render(values, &budget)
	if err != nil {
		return "", fmt.Errorf("can use %s: %w", usable(s), err)
	}
	if len(name) > longest {
		name = name[:shorter] + d.Random
	}
	return name, nil
}

func usable(s NameSubject) string {
	if s == NameOfCluster {
		return ".cluster.name and .random"
	}
	return fmt.Sprintf(".cluster.name, .%s.topologyName and .random", s)
}

// CheckNameTemplate requires that a template of names, if it is set, generates valid object names.
func CheckNameTemplate(at *field.Path, text string, s NameSubject) (errs field.ErrorList) {
	if text == "" {
		return nil
	}
	if len(text) > maxTemplate {
		return field.ErrorList{field.TooLong(at, text, maxTemplate)}
	}
	name, err := RenderName(text, s, NameData{Cluster: "cluster", Topology: "topology", Random: "abcde"})
	if err != nil {
		return field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	for _, reason := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, text, fmt.Sprintf("makes names such as %q: %s", name, reason)))
	}
	return errs
}

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
