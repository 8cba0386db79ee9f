// SPDX-License-Identifier: Apache-2.0

// Package conversion converts objects between the versions of their kinds: in the
// ConversionReviews of an API server, and in memory.
package conversion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	kjson "sigs.k8s.io/json"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Pair converts between the version that a kind is stored at and an old one.
type Pair struct {
	Old, Stored schema.GroupVersionKind
	// NewOld and NewStored create empty objects of the Go types.
	NewOld, NewStored func() runtime.Object
	// Up and Down return new objects with the version set and with metadata.
	// Their errors name the object.
	Up, Down func(runtime.Object) (runtime.Object, error)
}

// Converter converts objects of the kinds of its pairs. A conversion that panics
// fails alone.
type Converter struct {
	kinds map[schema.GroupKind]*versions
}

// versions are those of one kind: the stored one and, by apiVersion, the old ones.
type versions struct {
	stored string
	old    map[string]Pair
}

// New creates a Converter from pairs. All pairs of a kind must have one stored
// version.
func New(pairs ...Pair) (*Converter, error) {
	c := &Converter{kinds: map[schema.GroupKind]*versions{}}
	for _, p := range pairs {
		kind, stored, old := p.Stored.GroupKind(), p.Stored.GroupVersion().String(), p.Old.GroupVersion().String()
		v := c.kinds[kind]
		if v == nil {
			v = &versions{stored, map[string]Pair{}}
			c.kinds[kind] = v
		}
		if _, twice := v.old[old]; twice || v.stored != stored || p.Old.GroupKind() != kind || old == stored {
			return nil, fmt.Errorf("conversion between %s and %s does not go with the others of %s", p.Old, p.Stored, kind)
		}
		v.old[old] = p
	}
	return c, nil
}

// Stored is the apiVersion at which objects of a kind are stored; "" of a kind
// that is not converted.
func (c *Converter) Stored(kind schema.GroupKind) string {
	if v := c.kinds[kind]; v != nil {
		return v.stored
	}
	return ""
}

// Converts reports whether a version of a kind is an old one that is converted.
func (c *Converter) Converts(kind schema.GroupVersionKind) bool {
	v := c.kinds[kind.GroupKind()]
	if v == nil {
		return false
	}
	_, ok := v.old[kind.GroupVersion().String()]
	return ok
}

// Object converts an object in memory. The result shares metadata with obj, except
// for labels and annotations, and nothing else; obj is not changed.
func (c *Converter) Object(obj map[string]any, apiVersion string) (map[string]any, error) {
	u := unstructured.Unstructured{Object: obj}
	id := identity{APIVersion: u.GetAPIVersion(), Kind: u.GetKind()}
	id.Metadata.Namespace, id.Metadata.Name = u.GetNamespace(), u.GetName()
	return convert(c, id, apiVersion, obj, inMemory)
}

// JSON converts an object in JSON. Metadata is complete except for managed fields:
// an API server ignores changes of all metadata except labels and annotations.
func (c *Converter) JSON(raw []byte, apiVersion string) ([]byte, error) {
	var id identity
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &id); err != nil {
		return nil, fmt.Errorf("read an object to convert to %s: %w", apiVersion, err)
	}
	return convert(c, id, apiVersion, raw, inJSON)
}

// identity is what is decoded of an object first.
type identity struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// convert converts obj, in one of its forms, through the stored version if neither
// version is it.
func convert[F any](c *Converter, id identity, to string, obj F, f form[F]) (out F, err error) {
	if id.APIVersion == to {
		return obj, nil
	}
	kind, start := schema.FromAPIVersionAndKind(id.APIVersion, id.Kind).GroupKind(), time.Now()
	named := func(err error) error {
		return fmt.Errorf("convert %s %s/%s to %s: %w", cmp.Or(id.Kind, "object"), id.Metadata.Namespace, id.Metadata.Name, to, err)
	}
	up, down, err := c.way(kind, id.APIVersion, to)
	if err != nil {
		observe(schema.GroupKind{}, "", f.name, start, err) // no series for each name that a client makes up
		return out, named(err)
	}
	defer func() { observe(kind, to, f.name, start, err) }()
	log := klog.Background().WithValues("kind", id.Kind, "namespace", id.Metadata.Namespace, "name", id.Metadata.Name, "to", to)
	err = recovery.Call(klog.NewContext(context.Background(), log), func() (err error) {
		out, err = through(up, down, obj, f, named)
		return err
	})
	if _, panicked := errors.AsType[*recovery.Error](err); panicked {
		err = named(err)
	}
	return out, err
}

// through converts up, down, or both.
func through[F any](up, down *Pair, obj F, f form[F], named func(error) error) (out F, err error) {
	var now runtime.Object
	if up != nil {
		now = up.NewOld()
	} else {
		now = down.NewStored()
	}
	if err := f.decode(obj, now); err != nil {
		return out, named(err)
	}
	if up != nil {
		if now, err = up.Up(now); err != nil {
			return out, err
		}
	}
	if down != nil {
		if now, err = down.Down(now); err != nil {
			return out, err
		}
	}
	if out, err = f.encode(now, obj); err != nil {
		err = named(err)
	}
	return out, err
}

// way finds the pairs that convert one version of a kind to another; up is nil if
// from is the stored version, and down if to is.
func (c *Converter) way(kind schema.GroupKind, from, to string) (up, down *Pair, err error) {
	v := c.kinds[kind]
	if v == nil {
		return nil, nil, fmt.Errorf("kind %s has no conversion", kind)
	}
	for version, half := range map[string]**Pair{from: &up, to: &down} {
		p, ok := v.old[version]
		if !ok && version != v.stored {
			return nil, nil, fmt.Errorf("kind %s has no version %s that is converted", kind, version)
		}
		if ok {
			*half = &p
		}
	}
	return up, down, nil
}

// InProcessURL is what CustomResourceDefinitions name for their conversion where
// the API server has a Converter in its own process. Nothing listens there:
// .invalid never resolves (RFC 2606), so a definition that is copied to another API
// server fails there instead of calling an unrelated server.
const (
	InProcessURL  = "https://" + InProcessHost + Path
	InProcessHost = "conversion.capstan.invalid"
)
