// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// Facts are the input of Repeat: an Input as values, with what a computation has read. They
// lack the patches, whose result consists of values of variables, and may be secret.
type Facts struct {
	Cluster   *clusterv1.Cluster
	Blueprint blueprint.Blueprint
	Problems  map[string]string `json:",omitempty"` // of groups of the blueprint, by name
	Contract  string
	Current   Current
	Plan      upgrade.Plan
	// Templates are those of the class that were read, by kind and name; nil if one failed.
	Templates map[string]*unstructured.Unstructured
	// Changed are the existing templates, by kind and name, whose desired spec is another.
	Changed map[string]bool `json:",omitempty"`
	// Applied is what the topology has applied of existing objects, by kind and name.
	Applied map[string]*unstructured.Unstructured `json:",omitempty"`
	// Failed is why nothing was computed, or why nothing could be patched.
	Failed string `json:",omitempty"`
}

// Record returns the facts of a computation, which are complete after Compute.
func Record(in *Input) *Facts {
	f := &Facts{
		Cluster: in.Cluster, Blueprint: in.Blueprint, Contract: in.Contract, Current: in.Current, Plan: in.Plan,
		Problems: map[string]string{}, Templates: map[string]*unstructured.Unstructured{}, Changed: map[string]bool{},
		Applied: map[string]*unstructured.Unstructured{},
	}
	f.Blueprint.MachineDeployments, f.Blueprint.MachinePools = slices.Clone(in.Blueprint.MachineDeployments), slices.Clone(in.Blueprint.MachinePools)
	for _, w := range workers(f.Blueprint) {
		if w.Problem != nil {
			f.Problems[w.Name], w.Problem = w.Problem.Error(), nil
		}
	}
	templates, same, applied := in.Templates, in.Same, in.Applied
	in.Templates = func(ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
		t, err := templates(ref)
		f.Templates[ref.Kind+" "+ref.Name] = t
		return t, err
	}
	if same != nil {
		in.Same = func(current, wanted *unstructured.Unstructured) (bool, error) {
			is, err := same(current, wanted)
			if !is {
				f.Changed[current.GetKind()+" "+current.GetName()] = true
			}
			return is, err
		}
	}
	if applied != nil {
		in.Applied = func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			a, err := applied(current)
			if a != nil {
				f.Applied[current.GetKind()+" "+current.GetName()] = a.DeepCopy()
			}
			return a, err
		}
	}
	return f
}

func workers(b blueprint.Blueprint) (all []*blueprint.Workers) {
	for i := range b.MachineDeployments {
		all = append(all, &b.MachineDeployments[i].Workers)
	}
	for i := range b.MachinePools {
		all = append(all, &b.MachinePools[i].Workers)
	}
	return all
}

// Repeat computes the desired state again.
func Repeat(f Facts) Outline {
	for _, w := range workers(f.Blueprint) {
		if problem := f.Problems[w.Name]; problem != "" {
			w.Problem = errors.New(problem)
		}
	}
	if f.Failed != "" {
		return Outline{Failed: f.Failed}
	}
	d, err := Compute(Input{
		Cluster: f.Cluster, Blueprint: f.Blueprint, Contract: f.Contract, Current: f.Current, Plan: f.Plan,
		Templates: func(ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
			if t := f.Templates[ref.Kind+" "+ref.Name]; t != nil {
				return t, nil
			}
			return nil, errors.New("it could not be read")
		},
		Same: func(current, _ *unstructured.Unstructured) (bool, error) {
			return !f.Changed[current.GetKind()+" "+current.GetName()], nil
		},
		Applied: func(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			return f.Applied[current.GetKind()+" "+current.GetName()], nil
		},
	}, nil)
	return f.Outline(d, err)
}

// Outline is a desired state without the content of its objects.
type Outline struct {
	Objects []Sketch `json:"objects,omitempty"`
	Failed  string   `json:"failed,omitempty"`
}

// Sketch is one desired object.
type Sketch struct {
	Object   string `json:"object"` // kind and name; a new template has a name that depends on its content
	Version  string `json:"version,omitempty"`
	Replicas *int64 `json:"replicas,omitempty"`
	// Template is "new" or "kept".
	Template string `json:"template,omitempty"`
	// Content identifies the spec. It is a hash of values that may be secret.
	Content string `json:"content,omitempty"`
}

// Outline returns the outline of a desired state, and notes why it is not complete.
func (f *Facts) Outline(d Desired, err error) (out Outline) {
	if err = errors.Join(err, d.Err); err != nil {
		f.Failed = err.Error()
		return Outline{Failed: f.Failed}
	}
	for _, o := range d.Objects() {
		out.Objects = append(out.Objects, f.sketch(o))
	}
	return out
}

func (f *Facts) sketch(o *unstructured.Unstructured) Sketch {
	s := Sketch{Object: o.GetKind() + " " + o.GetName()}
	for _, path := range [][]string{{"spec", "version"}, {"spec", "template", "spec", "version"}} {
		if v, ok, _ := unstructured.NestedString(o.Object, path...); ok {
			s.Version = v
		}
	}
	if n, ok, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); ok {
		s.Replicas = &n
	}
	switch {
	case f.Current.has(o):
		s.Template = "kept"
	case f.isTemplate(o):
		s.Object, s.Template = o.GetKind(), "new"
	}
	if spec, err := json.Marshal(o.Object["spec"]); err == nil {
		sum := sha256.Sum256(spec)
		s.Content = hex.EncodeToString(sum[:])
	}
	return s
}

// isTemplate reports whether an object is a copy of a template of the class.
func (f *Facts) isTemplate(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.Templates)), func(t *unstructured.Unstructured) bool { return t != nil && t.GetKind() == o.GetKind() })
}

// has reports whether a template with the kind and name of an object exists.
func (c Current) has(o *unstructured.Unstructured) bool {
	all := []*unstructured.Unstructured{c.Hosts}
	for _, groups := range []map[string]*Group{c.Deployments, c.Pools} {
		for _, g := range groups {
			all = append(all, g.Bootstrap, g.Hosts)
		}
	}
	return slices.ContainsFunc(all, func(t *unstructured.Unstructured) bool {
		return t != nil && t.GetKind() == o.GetKind() && t.GetName() == o.GetName()
	})
}
