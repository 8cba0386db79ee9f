// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/controller/certificate"
	"github.com/capstan-dev/capstan/internal/controller/localcluster"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/writes"
	"github.com/capstan-dev/capstan/manifests"
)

// store is an API server's memory, as far as controllers need it.
type store struct {
	client.WithWatch // server, with all that this store adds
	server           *apiServer
	clock            *Clock
	kinds            []schema.GroupVersionKind // that can be stored, except definitions
	writes           int
	taken            map[string]bool // names and UIDs of what was there from the start
	made             int
	named            map[string]int
	sent             map[string]int // requests to write, by verb and kind
	by               map[string]int // the same, by controller as well
	acts             string         // the controller that writes now; "" for users
	refuse           error          // what the next writes are answered, once spare is used up; nil: they are done
	spare            int            // how many more are done
	of               string         // of which controller; "" for all
	dead             bool           // spare is used up
	read             answers
}

// definitions are parsed once: that takes longer than all else of a new world.
var definitions = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := manifests.CRDs()
	more, moreErr := manifests.Certificates()
	return append(crds, more...), errors.Join(err, moreErr)
})

var definitionKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// definitionRecords are the definitions as every server stores them. They are
// shared: a definition with its schema is larger than all other objects of a world.
var definitionRecords = sync.OnceValues(func() (all []*record, err error) {
	crds, err := definitions()
	return records(crds), err
})

func records(crds []*apiextensionsv1.CustomResourceDefinition) (all []*record) {
	for _, crd := range crds {
		crd = crd.DeepCopy()
		crd.SetGroupVersionKind(schema.GroupVersionKind{})
		crd.SetResourceVersion("999")
		all = append(all, newRecord(crd, encoded(definitionKind, crd)))
	}
	return all
}

// newStore creates a store of the kinds that are installed, with Secrets and
// ConfigMaps, and with objects that were in another one.
func newStore(o Options) (*store, error) {
	c := o.Clock
	scheme, err := controllers.Scheme()
	if err != nil {
		return nil, err
	}
	crds, err := definitionRecords()
	if err != nil {
		return nil, err
	}
	s := &store{clock: c, taken: map[string]bool{}, named: map[string]int{}, sent: map[string]int{}, by: map[string]int{}}
	s.server = &apiServer{
		scheme: scheme, mapper: meta.NewDefaultRESTMapper(nil),
		status:  map[schema.GroupVersionKind]bool{definitionKind: true},
		indexes: map[schema.GroupVersionKind]map[string]client.IndexerFunc{},
		begin:   s.begin, now: func() metav1.Time { return metav1.NewTime(c.Now().Truncate(time.Second)) },
		wrote: s.wrote, kinds: map[schema.GroupVersionKind]*table{}, reads: o.Reads,
	}
	if o.Admit != nil {
		s.server.admit = func(old, obj *unstructured.Unstructured, stored int) error {
			if s.acts == "" {
				return nil
			}
			return o.Admit(old, obj, stored)
		}
	}
	foreign := records(o.Definitions)
	for _, crd := range slices.Concat(crds, foreign) {
		s.server.put(definitionKind, crd)
	}
	for _, kind := range definedKinds(crds) {
		if scheme.Recognizes(kind) {
			s.kinds = append(s.kinds, kind)
			s.server.status[kind] = true
		}
	}
	for _, kind := range definedKinds(foreign) {
		s.kinds = append(s.kinds, kind)
		s.server.status[kind] = true
	}
	if s.server.types, err = typesWith(o.Definitions); err != nil {
		return nil, err
	}
	s.kinds = append(s.kinds, corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := s.index(); err != nil {
		return nil, err
	}
	for _, obj := range o.Objects {
		s.taken[obj.GetName()], s.taken[string(obj.GetUID())] = true, true
		if err := s.server.add(obj.DeepCopyObject().(client.Object)); err != nil {
			return nil, err
		}
	}
	s.read.unchecked = o.Reads != nil
	s.WithWatch = interceptor.NewClient(s.server, s.read.remember(s.server, writes.Before(s.before)))
	return s, nil
}

// definedKinds are the stored versions of definitions.
func definedKinds(crds []*record) (kinds []schema.GroupVersionKind) {
	for _, r := range crds {
		crd := r.Object.(*apiextensionsv1.CustomResourceDefinition)
		for _, v := range crd.Spec.Versions {
			if v.Storage {
				kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind})
			}
		}
	}
	return kinds
}

// index adds the indexes that a manager's cache has.
func (s *store) index() error {
	type of struct {
		kind  client.Object
		field string
		by    client.IndexerFunc
	}
	all := []of{
		{&infrav1.LocalMachine{}, index.ClusterLabel, index.OfLabel},
		{&infrav1.LocalCluster{}, localcluster.Identity, localcluster.OfIdentity},
		{&certmanagerv1.Certificate{}, certificate.SecretName, certificate.OfSecretName},
	}
	for _, obj := range index.Kinds() {
		all = append(all, of{obj, index.ClusterName, index.Of})
	}
	for _, i := range all {
		gvk, err := s.server.GroupVersionKindFor(i.kind)
		if err != nil {
			return err
		}
		if s.server.indexes[gvk] == nil {
			s.server.indexes[gvk] = map[string]client.IndexerFunc{}
		}
		s.server.indexes[gvk][i.field] = i.by
	}
	return nil
}

// wrote notes a write of a kind.
func (s *store) wrote(resource schema.GroupVersionResource) {
	s.writes++
	s.read.forget(resource)
}

// before counts a write.
func (s *store) before(verb string, obj client.Object) error {
	kind, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	if s.refuse != nil && verb != writes.DryRun {
		if counts := s.of == "" || s.of == s.acts; counts && s.spare == 0 {
			s.dead = true
		} else if counts {
			s.spare--
		}
		if s.dead {
			return s.refuse
		}
	}
	s.count(verb + " " + kind.Kind)
	return nil
}

// count counts a request.
func (s *store) count(what string) {
	s.sent[what]++
	s.by[s.acts+": "+what]++
}

// begin sets on an object what a server sets on a new one.
func (s *store) begin(obj metav1.Object) {
	uid := ""
	for uid == "" || s.taken[uid] {
		s.made++
		uid = fmt.Sprintf("uid-%d", s.made)
	}
	obj.SetUID(types.UID(uid))
	obj.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
	obj.SetGeneration(1)
}

// all copies the objects of kinds, each kind by namespace and name.
func (s *store) all(kinds ...schema.GroupVersionKind) (all []client.Object) {
	for _, kind := range kinds {
		for _, r := range s.server.sorted(kind, "") {
			all = append(all, r.DeepCopyObject().(client.Object))
		}
	}
	return all
}

// collect deletes objects whose owners are all deleted, as the garbage collector
// does.
func (s *store) collect(ctx context.Context) error {
	var all []*record
	alive := map[types.UID]bool{}
	for _, kind := range s.kinds {
		all = append(all, s.server.sorted(kind, "")...)
	}
	for _, obj := range all {
		alive[obj.GetUID()] = true
	}
	for _, obj := range all {
		refs := obj.GetOwnerReferences()
		if len(refs) == 0 || !obj.GetDeletionTimestamp().IsZero() || slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return alive[r.UID] }) {
			continue
		}
		if err := s.Delete(ctx, obj.Object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("collect %T %s: %w", obj.Object, client.ObjectKeyFromObject(obj), err)
		}
	}
	return nil
}

// name creates a name with a counter in place of random letters.
func (s *store) name(prefix string) string {
	prefix = strings.TrimSuffix(prefix, "-") + "-"
	for {
		s.named[prefix]++
		if name := fmt.Sprintf("%s%d", prefix, s.named[prefix]); !s.taken[name] {
			return name
		}
	}
}
