// SPDX-License-Identifier: Apache-2.0

// Package crds implements CustomResourceDefinitions: the kinds they define, with
// their schemas, and what an API server does with a definition itself. It uses the
// library of API servers.
//
// A definition is read when its cluster first gets a request for something that it
// may define, its schemas when the first object is read or written; clusters with
// equal definitions share the result.
package crds

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"weak"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
)

// Definition is what a CustomResourceDefinition defines. It is shared, and
// never changes.
type Definition struct {
	Group      string
	Names      apiextensionsv1.CustomResourceDefinitionNames
	Namespaced bool
	Versions   []*Version

	raw    []byte
	whole  func() (*apiextensionsv1.CustomResourceDefinition, error)
	models func() (managedfields.TypeConverter, error)
}

// State is the status of a definition in one cluster.
type State struct {
	Established bool
	Terminating bool
}

// head is the part of a definition that names its kinds.
type head struct {
	Group    string                        `json:"group"`
	Scope    apiextensionsv1.ResourceScope `json:"scope"`
	Versions []struct {
		Name               string  `json:"name"`
		Served             bool    `json:"served"`
		Storage            bool    `json:"storage"`
		Deprecated         bool    `json:"deprecated"`
		DeprecationWarning *string `json:"deprecationWarning"`
		Subresources       struct {
			Status *struct{}                                       `json:"status"`
			Scale  *apiextensionsv1.CustomResourceSubresourceScale `json:"scale"`
		} `json:"subresources"`
	} `json:"versions"`
}

type stored struct {
	Spec   json.RawMessage `json:"spec"`
	Status struct {
		AcceptedNames apiextensionsv1.CustomResourceDefinitionNames `json:"acceptedNames"`
		Conditions    []struct {
			Type   apiextensionsv1.CustomResourceDefinitionConditionType `json:"type"`
			Status apiextensionsv1.ConditionStatus                       `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// Read reads a definition as it is stored, which it keeps.
func Read(raw []byte) (*Definition, State, error) {
	var s stored
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, State{}, fmt.Errorf("read a CustomResourceDefinition: %w", err)
	}
	var state State
	for _, c := range s.Status.Conditions {
		switch c.Type {
		case apiextensionsv1.Established:
			state.Established = c.Status == apiextensionsv1.ConditionTrue
		case apiextensionsv1.Terminating:
			state.Terminating = c.Status == apiextensionsv1.ConditionTrue
		}
	}
	d, err := known.get(raw, s)
	return d, state, err
}

// known are the definitions that some cluster uses, by their content.
var known = definitions{used: map[[sha256.Size]byte]weak.Pointer[Definition]{}}

type definitions struct {
	mu   sync.Mutex // guards used
	used map[[sha256.Size]byte]weak.Pointer[Definition]
}

func (k *definitions) get(raw []byte, s stored) (*Definition, error) {
	names, err := json.Marshal(s.Status.AcceptedNames)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(append(names, s.Spec...))
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.used[key].Value(); d != nil {
		return d, nil
	}
	d, err := newDefinition(raw, s)
	if err != nil {
		return nil, err
	}
	k.used[key] = weak.Make(d)
	runtime.AddCleanup(d, k.forget, key)
	return d, nil
}

// forget evicts what is no longer used, unless it has been created again.
func (k *definitions) forget(key [sha256.Size]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used[key].Value() == nil {
		delete(k.used, key)
	}
}

func newDefinition(raw []byte, s stored) (*Definition, error) {
	var h head
	if err := json.Unmarshal(s.Spec, &h); err != nil {
		return nil, fmt.Errorf("read the spec of a CustomResourceDefinition: %w", err)
	}
	d := &Definition{Group: h.Group, Names: s.Status.AcceptedNames, Namespaced: h.Scope == apiextensionsv1.NamespaceScoped, raw: raw}
	d.whole = sync.OnceValues(d.parse)
	d.models = sync.OnceValues(d.describe)
	for _, v := range h.Versions {
		made := &Version{Name: v.Name, Served: v.Served, Storage: v.Storage, of: d, Status: v.Subresources.Status != nil, Scale: v.Subresources.Scale}
		if v.Deprecated {
			made.Warning = d.deprecation(h, v.Name)
			if v.DeprecationWarning != nil {
				made.Warning = *v.DeprecationWarning
			}
		}
		made.compiled = sync.OnceValues(made.compile)
		d.Versions = append(d.Versions, made)
	}
	slices.SortFunc(d.Versions, func(a, b *Version) int {
		return apimachineryversion.CompareKubeAwareVersionStrings(b.Name, a.Name)
	})
	return d, nil
}

// deprecation is the default warning of a deprecated version without its own.
func (d *Definition) deprecation(h head, version string) string {
	text, newest := fmt.Sprintf("%s/%s %s is deprecated", d.Group, version, d.Names.Kind), ""
	for _, v := range h.Versions {
		if v.Served && !v.Deprecated && apimachineryversion.CompareKubeAwareVersionStrings(v.Name, version) > 0 &&
			(newest == "" || apimachineryversion.CompareKubeAwareVersionStrings(v.Name, newest) > 0) {
			newest = v.Name
		}
	}
	if newest == "" {
		return text
	}
	return fmt.Sprintf("%s; use %s/%s %s", text, d.Group, newest, d.Names.Kind)
}

func (d *Definition) parse() (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(d.raw, crd); err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s.%s: %w", d.Names.Plural, d.Group, err)
	}
	crd.Spec.Names = d.Names // what is served
	return crd, nil
}
