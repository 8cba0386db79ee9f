// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/crds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var definitionKind = kinds.Everywhere().ByKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))

// served caches what a cluster serves, until one of its definitions changes.
type served struct{ latest atomic.Pointer[servedAt] }

type servedAt struct {
	version uint64
	set     *kinds.Set
	read    map[*store.Entry]kinds.Defined
}

// Kinds returns what the cluster serves.
func (s *Store) Kinds() *kinds.Set {
	version := s.raw.VersionOf(definitionKind.Stored())
	was := s.served.latest.Load()
	switch {
	case version == 0:
		return kinds.Everywhere()
	case was != nil && was.version == version:
		return was.set
	}
	now := &servedAt{version: version, read: map[*store.Entry]kinds.Defined{}}
	entries, _ := s.raw.List(definitionKind.Stored(), "")
	var all []kinds.Defined
	for _, e := range entries {
		var d kinds.Defined
		if was != nil {
			d = was.read[e]
		}
		if d.Definition == nil {
			var err error
			if d.Definition, d.State, err = crds.Read(e.Raw); err != nil {
				s.log.Error(err, "Serving what a definition defines", "name", e.Key.Name)
				continue
			}
		}
		now.read[e] = d
		all = append(all, d)
	}
	now.set = kinds.Everywhere().With(all)
	s.served.latest.Store(now)
	return now.set
}

// Parse decodes the object of an entry, as it is stored.
func Parse(e *store.Entry) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(e.Raw); err != nil {
		return nil, fmt.Errorf("parse stored %s %s/%s: %w", e.Key.Resource, e.Key.Namespace, e.Key.Name, err)
	}
	return u, nil
}

// Read decodes the object of an entry as one of kind k.
func Read(k *kinds.Kind, e *store.Entry) (*unstructured.Unstructured, error) {
	u, err := Parse(e)
	if err != nil || fits(k, e) {
		return u, err
	}
	if k.Custom != nil {
		_, err = k.Custom.Fit(u)
	} else {
		err = kinds.Convert(u, k.GroupVersionKind)
	}
	if err != nil {
		return nil, fmt.Errorf("read stored %s %s/%s as %s: %w", e.Key.Resource, e.Key.Namespace, e.Key.Name, k.GroupVersion(), err)
	}
	return u, nil
}

// Show gives the object of an entry as JSON of kind k.
func Show(k *kinds.Kind, e *store.Entry) ([]byte, error) {
	if fits(k, e) {
		return e.Raw, nil
	}
	u, err := Read(k, e)
	if err != nil {
		return nil, err
	}
	return json.Marshal(u.Object)
}

// fits reports whether an entry is stored as it is read as kind k: in the same
// version and, if that has a schema, with the same schema.
func fits(k *kinds.Kind, e *store.Entry) bool {
	if k.Custom != nil {
		return e.Form == k.Custom
	}
	return k.GroupVersionKind == k.StoredAs
}

// encode creates an entry from u, an object of kind k, at a version.
func encode(k *kinds.Kind, u *unstructured.Unstructured, version uint64) (*store.Entry, error) {
	u.SetResourceVersion(strconv.FormatUint(version, 10))
	raw, err := storedForm(k, u)
	if err != nil {
		return nil, err
	}
	e := &store.Entry{UID: u.GetUID(), Version: version, Labels: u.GetLabels(), Raw: raw}
	if k.Custom != nil && k.GroupVersionKind == k.StoredAs {
		e.Form = k.Custom
	}
	for _, o := range u.GetOwnerReferences() {
		e.Owners = append(e.Owners, o.UID)
	}
	return e, nil
}

// storedForm is the JSON that u, an object of kind k, is kept as.
func storedForm(k *kinds.Kind, u *unstructured.Unstructured) (raw []byte, err error) {
	if k.GroupVersionKind != k.StoredAs {
		u = u.DeepCopy()
		err = kinds.Convert(u, k.StoredAs)
	}
	if err == nil {
		raw, err = json.Marshal(u.Object)
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	return raw, nil
}
