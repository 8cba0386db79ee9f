// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"bytes"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// storages wraps how custom resources are stored. Those that are read at the stored
// version are not converted. Those that are read and written at an old version
// which the Converter supports are converted without a review, and have a cache
// only once a client needs it.
type storages struct {
	generic.RESTOptionsGetter
	by *conversion.Converter
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (s storages) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := s.RESTOptionsGetter.GetRESTOptions(r, example)
	if err != nil {
		return opts, err
	}
	text := opts.StorageConfig.Codec
	opts.StorageConfig.Codec = parsed{text}
	next := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		kind := newFunc().GetObjectKind().GroupVersionKind()
		direct := *config
		if !s.by.Converts(kind) {
			direct.Codec = storedCodec{config.Codec, text, kind, &history{}}
			return next(&direct, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		}
		codec := directCodec{config.Codec, kind.GroupVersion().String(), s.by.Stored(kind.GroupKind()), s.by, false}
		direct.Codec = codec
		etcd, destroy, err := generic.NewRawStorage(&direct, newFunc, newListFunc, prefix)
		if err != nil {
			return nil, nil, err
		}
		cached := direct
		codec.cached = true
		cached.Codec = codec
		l := &lazyCache{Interface: etcd, newList: newListFunc, key: keyFunc, start: func() (storage.Interface, factory.DestroyFunc, error) {
			return next(&cached, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		}}
		return l, func() { l.destroy(); destroy() }, nil
	}
	return opts, nil
}

// parsed is the codec that the API server's codec for custom resources wraps. It
// returns an already parsed object unchanged.
type parsed struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (p parsed) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if u, ok := into.(*unstructured.Unstructured); ok && data == nil {
		if object, ok := u.Object[enclosed].(map[string]any); ok {
			u.Object = object
			return u, new(u.GroupVersionKind()), nil
		}
	}
	return p.Codec.Decode(data, defaults, into)
}

// enclosed is the field in which parsed finds an object. The wrapping codec would
// not decode, but convert, into an object with its own version.
const enclosed = "parsed"

// storedCodec does not convert objects that are stored at the desired version, and
// does not normalize well-formed metadata. The codec it wraps decodes, prunes and
// defaults the stored version, and converts all metadata to text and back; unless
// the object it decodes into has no version, it then converts the object, for which
// it copies it, even to that same version, and prunes it again: most of the cost of
// filling a watch cache.
type storedCodec struct {
	runtime.Codec
	text    runtime.Decoder // of stored objects
	kind    schema.GroupVersionKind
	watched *history
}

// Decode implements runtime.Decoder.
func (c storedCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	out, ok := into.(*unstructured.Unstructured)
	watched := into == nil // only watches decode into nothing
	if watched {
		out, ok = &unstructured.Unstructured{}, true
	}
	if !ok {
		return c.Codec.Decode(data, defaults, into)
	}
	u := &unstructured.Unstructured{}
	gvk, err := c.decode(data, defaults, u)
	if err != nil {
		return nil, gvk, err
	}
	if u.GroupVersionKind() != c.kind {
		return c.Codec.Decode(data, defaults, into)
	}
	out.Object = u.Object
	if watched {
		c.watched.add(out)
	}
	return out, gvk, nil
}

// decode hides well-formed metadata from the codec it wraps, except the generation,
// which that codec would set.
func (c storedCodec) decode(data []byte, defaults *schema.GroupVersionKind, u *unstructured.Unstructured) (*schema.GroupVersionKind, error) {
	if _, gvk, err := c.text.Decode(data, defaults, u); err != nil {
		return gvk, err
	}
	metadata, ok := u.Object["metadata"].(map[string]any)
	ok = ok && wellFormed(metadata)
	if ok {
		u.Object["metadata"] = map[string]any{"generation": metadata["generation"]}
	}
	u.Object = map[string]any{enclosed: u.Object}
	_, gvk, err := c.Codec.Decode(nil, defaults, u)
	if err == nil && ok {
		u.Object["metadata"] = metadata
	}
	return gvk, err
}

// directCodec converts between the stored version and an old one without a review.
// The result of a conversion is not pruned again: Go types have no fields that the
// schema lacks. The codec it wraps works like that of storedCodec, and encodes an
// object of the stored version as it is.
type directCodec struct {
	runtime.Codec
	version, stored string
	by              *conversion.Converter
	// cached is whether objects that cannot be converted down are stored as
	// unreadable.
	cached bool
}

// Decode implements runtime.Decoder.
func (c directCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	u := &unstructured.Unstructured{}
	_, gvk, err := c.Codec.Decode(data, defaults, u)
	if err != nil {
		return nil, gvk, err
	}
	down, err := c.by.Object(u.Object, c.version)
	switch {
	case err == nil:
		u.Object = down
	case c.cached:
		klog.ErrorS(err, "Keeping an object from readers of an old version")
		u.Object = unreadable(u.Object, c.version, err)
	default:
		return nil, gvk, apierrors.NewInternalError(err)
	}
	if into == nil {
		return u, gvk, nil
	}
	out, ok := into.(*unstructured.Unstructured)
	if !ok {
		return nil, gvk, fmt.Errorf("decode %v into %T", gvk, into)
	}
	out.Object = u.Object
	return out, gvk, nil
}

// Encode implements runtime.Encoder. A watch cache tests its codec with an object
// that has only its kind.
func (c directCodec) Encode(obj runtime.Object, w io.Writer) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || len(u.Object) <= 2 {
		return c.Codec.Encode(obj, w)
	}
	up, err := c.by.Object(u.Object, c.stored)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var b bytes.Buffer // so that nothing of a failed object is written
	if err := c.Codec.Encode(&unstructured.Unstructured{Object: up}, &b); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}
