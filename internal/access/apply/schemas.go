// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// Schemas holds the types of the kinds that were requested. A watch of CRD metadata,
// which is also used for contracts, shows by UID and generation when a type is out
// of date. Only then is the whole CRD read: the schemas of all CRDs of a cluster
// would be most of the memory of a manager.
type Schemas struct {
	watched client.Reader
	live    client.Reader

	mu    sync.Mutex // guards kinds, not the values in it
	kinds map[schema.GroupVersionKind]*kind
}

// kind is the type of one version of a kind, as far as it has been read.
type kind struct {
	mu         sync.Mutex // guards the fields below; held while the CRD is read, so that it is read once
	uid        types.UID
	generation int64
	of         *ssadiff.Type
}

// NewSchemas returns a Cache. watched reads metadata of CRDs from a watch, live reads
// whole CRDs.
func NewSchemas(watched, live client.Reader) *Schemas {
	return &Schemas{watched: watched, live: live, kinds: map[schema.GroupVersionKind]*kind{}}
}

// Type returns the type of a kind in one version. It is the same value until the
// CRD changes.
func (c *Schemas) Type(ctx context.Context, gvk schema.GroupVersionKind) (*ssadiff.Type, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	key := client.ObjectKey{Name: contract.CRDName(gvk.Group, gvk.Kind)}
	if err := c.watched.Get(ctx, key, crd, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("kind %s: there is no CRD %s: install the provider that brings it", gvk.Kind, key.Name)
	} else if err != nil {
		return nil, fmt.Errorf("get CRD %s: %w", key.Name, err)
	}
	k := c.kind(gvk)
	k.mu.Lock()
	defer k.mu.Unlock()
	// The CRD that was read live may be newer than that of the watch.
	if k.of != nil && k.uid == crd.UID && k.generation >= crd.Generation {
		return k.of, nil
	}
	err := k.read(ctx, c.live, gvk, key)
	return k.of, err
}

func (c *Schemas) kind(gvk schema.GroupVersionKind) *kind {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.kinds[gvk]
	if k == nil {
		k = &kind{}
		c.kinds[gvk] = k
	}
	return k
}

// read builds the type from the current CRD. The caller must hold the lock.
func (k *kind) read(ctx context.Context, live client.Reader, gvk schema.GroupVersionKind, key client.ObjectKey) error {
	k.of = nil
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(crdKind)
	if err := live.Get(ctx, key, crd); err != nil {
		return fmt.Errorf("get CRD %s: %w", key.Name, err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return fmt.Errorf("read CRD %s: %w", key.Name, err)
	}
	for _, v := range versions {
		v, _ := v.(map[string]any)
		if v["name"] != gvk.Version || v["served"] != true {
			continue
		}
		of, _, err := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
		if err != nil {
			return fmt.Errorf("read CRD %s: %w", key.Name, err)
		}
		text, err := json.Marshal(of)
		if err != nil {
			return fmt.Errorf("read CRD %s: %w", key.Name, err)
		}
		k.uid, k.generation = crd.GetUID(), crd.GetGeneration()
		k.of, err = ssadiff.NewType(gvk, text)
		return err
	}
	return fmt.Errorf("kind %s: CRD %s does not serve version %s: correct the version, or install the provider that serves it", gvk.Kind, key.Name, gvk.Version)
}
