// SPDX-License-Identifier: Apache-2.0

// Package resourcesets reads the Secrets and ConfigMaps whose data is applied to
// workload clusters.
//
// A management cluster may have any number of other Secrets and ConfigMaps. Only
// metadata is watched, of Secrets only those of the type that may be applied; data
// is read when needed, once for all clusters.
package resourcesets

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// kept limits the objects in memory that are kept for the next cluster: in bytes of
// their data. As objects they take some ten times as much.
const kept = 4 << 20

// ErrWrongType means that a Secret is not of the type that may be applied.
var ErrWrongType = fmt.Errorf("it is not of type %s", addonsv1.ClusterResourceSetSecretType)

// ErrNotFound means that the object does not exist.
var ErrNotFound = errors.New("it does not exist")

// Store reads payloads.
type Store struct {
	live    client.Reader
	watched cache.Cache // metadata; if nil, it is read live

	mu   sync.Mutex // guards the fields below
	read map[key]*memo
	size int // of all memos
	uses int
}

// key names a Secret or ConfigMap.
type key struct {
	namespace string
	addonsv1.ResourceRef
}

// memo is the cached result of the last read of an object.
type memo struct {
	reading sync.Mutex // held while it is read, so that it is read once

	uid     types.UID
	version string
	hash    string
	payload *resourceset.Payload // nil to save memory
	size    int                  // of payload
	used    int                  // when; larger is later
}

// New returns a Store that reads without the cache. It uses watched to detect
// changes; if nil, it reads the metadata each time.
func New(live client.Reader, watched cache.Cache) *Store {
	return &Store{live: live, watched: watched, read: map[key]*memo{}}
}

// Watch returns a cache of the metadata that a Store needs, in a namespace or in
// all. The manager must run it.
func Watch(mgr ctrl.Manager, namespace string) (cache.Cache, error) {
	o := cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", string(addonsv1.ClusterResourceSetSecretType))},
		},
	}
	if namespace != metav1.NamespaceAll {
		o.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return cache.New(mgr.GetConfig(), o)
}

// Sources trigger a controller when Secrets and ConfigMaps change.
func (s *Store) Sources(toRequests handler.MapFunc) (all []source.Source) {
	for _, kind := range []addonsv1.ClusterResourceSetResourceKind{addonsv1.SecretClusterResourceSetResourceKind, addonsv1.ConfigMapClusterResourceSetResourceKind} {
		all = append(all, source.Kind[client.Object](s.watched, metadata(kind), handler.EnqueueRequestsFromMapFunc(toRequests), controller.Changed()))
	}
	return all
}

// Ref returns how a ClusterResourceSet in its namespace refers to an object of
// Sources.
func Ref(obj client.Object) addonsv1.ResourceRef {
	return addonsv1.ResourceRef{Kind: addonsv1.ClusterResourceSetResourceKind(obj.GetObjectKind().GroupVersionKind().Kind), Name: obj.GetName()}
}

func metadata(kind addonsv1.ClusterResourceSetResourceKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(kind)))
	return m
}

// Find returns the metadata of the object of a reference. ErrNotFound and
// ErrWrongType mean that there is nothing to apply.
func (s *Store) Find(ctx context.Context, namespace string, ref addonsv1.ResourceRef) (*metav1.PartialObjectMetadata, error) {
	if s.watched != nil {
		m := metadata(ref.Kind)
		err := s.watched.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, m)
		if err == nil || !apierrors.IsNotFound(err) || ref.Kind != addonsv1.SecretClusterResourceSetResourceKind {
			return m, translated(err, ref)
		} // a Secret that is not found may be one of another type
	}
	obj, _, err := s.get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	m := metadata(ref.Kind)
	m.SetNamespace(namespace)
	m.SetName(ref.Name)
	m.SetUID(obj.GetUID())
	m.SetResourceVersion(obj.GetResourceVersion())
	m.SetOwnerReferences(obj.GetOwnerReferences())
	m.SetDeletionTimestamp(obj.GetDeletionTimestamp())
	return m, nil
}

// get reads an object with its data.
func (s *Store) get(ctx context.Context, namespace string, ref addonsv1.ResourceRef) (client.Object, map[string][]byte, error) {
	at := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	if ref.Kind == addonsv1.SecretClusterResourceSetResourceKind {
		secret := &corev1.Secret{}
		if err := s.live.Get(ctx, at, secret); err != nil {
			return nil, nil, translated(err, ref)
		}
		if secret.Type != addonsv1.ClusterResourceSetSecretType {
			return nil, nil, ErrWrongType
		}
		return secret, secret.Data, nil
	}
	config := &corev1.ConfigMap{}
	if err := s.live.Get(ctx, at, config); err != nil {
		return nil, nil, translated(err, ref)
	}
	data := map[string][]byte{}
	for name, value := range config.Data {
		data[name] = []byte(value)
	}
	for name, value := range config.BinaryData {
		data[name] = value
	}
	return config, data, nil
}

func translated(err error, ref addonsv1.ResourceRef) error {
	switch {
	case apierrors.IsNotFound(err):
		return ErrNotFound
	case err != nil:
		return fmt.Errorf("get %s %s: %w", ref.Kind, ref.Name, err)
	}
	return nil
}

// Hash returns the hash of an object's data. It reads the data only if it has
// changed since the last read.
func (s *Store) Hash(ctx context.Context, namespace string, ref addonsv1.ResourceRef) (string, error) {
	p, err := s.load(ctx, key{namespace, ref}, false)
	return p.Hash, err
}

// Read returns the content of an object. Callers must not change it.
func (s *Store) Read(ctx context.Context, namespace string, ref addonsv1.ResourceRef) (resourceset.Payload, error) {
	return s.load(ctx, key{namespace, ref}, true)
}

func (s *Store) load(ctx context.Context, k key, whole bool) (resourceset.Payload, error) {
	found, err := s.Find(ctx, k.namespace, k.ResourceRef)
	if err != nil {
		s.forget(k)
		return resourceset.Payload{}, err
	}
	m := s.memo(k)
	m.reading.Lock()
	defer m.reading.Unlock()
	if p, ok := s.known(m, found, whole); ok {
		return p, nil
	}
	obj, data, err := s.get(ctx, k.namespace, k.ResourceRef)
	if err != nil {
		return resourceset.Payload{}, err
	}
	p := resourceset.Read(data)
	s.keep(k, m, obj, &p, weigh(data))
	return p, nil
}

func weigh(data map[string][]byte) (size int) {
	for name, value := range data {
		size += len(name) + len(value)
	}
	return size
}

func (s *Store) memo(k key) *memo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read[k] == nil {
		s.read[k] = &memo{}
	}
	return s.read[k]
}

func (s *Store) forget(k key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.read[k]; m != nil {
		s.size -= m.size
		m.payload, m.size = nil, 0
		delete(s.read, k)
	}
}

// known returns the content in a memo if it is that of the current object.
func (s *Store) known(m *memo, obj client.Object, whole bool) (p resourceset.Payload, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj.GetResourceVersion() == "" || m.version != obj.GetResourceVersion() || m.uid != obj.GetUID() || whole && m.payload == nil {
		return p, false
	}
	s.uses++
	m.used = s.uses
	if m.payload == nil {
		return resourceset.Payload{Hash: m.hash}, true
	}
	return *m.payload, true
}

// keep caches what was read, evicting the least recently used content.
func (s *Store) keep(k key, m *memo, obj client.Object, p *resourceset.Payload, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read[k] != m {
		return // it was evicted meanwhile
	}
	s.uses++
	s.size += size - m.size
	m.uid, m.version, m.hash, m.payload, m.size, m.used = obj.GetUID(), obj.GetResourceVersion(), p.Hash, p, size, s.uses
	for s.size > kept {
		var oldest *memo
		for _, other := range s.read {
			if other.payload != nil && (oldest == nil || other.used < oldest.used) {
				oldest = other
			}
		}
		s.size -= oldest.size
		oldest.payload, oldest.size = nil, 0
	}
}
