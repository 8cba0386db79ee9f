// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/certificate"
	"github.com/capstan-dev/capstan/internal/controller/localcluster"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/manifests"
)

// store is an API server's memory, as far as controllers need it.
type store struct {
	client.WithWatch
	clock  *Clock
	kinds  []schema.GroupVersionKind // that can be stored, but for definitions
	writes int
	taken  map[string]bool // names and UIDs of what was there from the start
	made   int
	named  map[string]int
	sent   map[string]int // requests to write, by verb and kind
	by     map[string]int // the same, by controller as well
	acts   string         // the controller that writes now; "" for users
	refuse error          // what the next writes are answered, once spare is used up; nil: they are done
	spare  int            // how many more are done
	of     string         // of which controller; "" for all
	dead   bool           // spare is used up
	read   answers
}

// definitions are parsed once: that takes longer than all else of a new world.
var definitions = sync.OnceValues(func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := manifests.CRDs()
	more, moreErr := manifests.Certificates()
	return append(crds, more...), errors.Join(err, moreErr)
})

// newStore makes a store of the kinds that are installed, with Secrets and
// ConfigMaps, and with objects that were in another one.
func newStore(c *Clock, objects []client.Object) (*store, error) {
	scheme, err := controllers.Scheme()
	if err != nil {
		return nil, err
	}
	crds, err := definitions()
	if err != nil {
		return nil, err
	}
	s := &store{clock: c, taken: map[string]bool{}, named: map[string]int{}, sent: map[string]int{}, by: map[string]int{}}
	of, err := schemaTypes()
	if err != nil {
		return nil, err
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjectTracker(tracker{
		testing.NewFieldManagedObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder(), of), s,
	})
	for _, crd := range crds {
		b = b.WithObjects(crd.DeepCopy())
		for _, v := range crd.Spec.Versions {
			if kind := (schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}); v.Storage && scheme.Recognizes(kind) {
				s.kinds = append(s.kinds, kind)
			}
		}
	}
	for _, kind := range s.kinds {
		obj, err := scheme.New(kind)
		if err != nil {
			return nil, err
		}
		b = b.WithStatusSubresource(obj.(client.Object))
	}
	s.kinds = append(s.kinds, corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for _, obj := range index.Kinds() {
		b = b.WithIndex(obj, index.ClusterName, index.Of)
	}
	b = b.WithIndex(&infrav1.LocalMachine{}, index.ClusterLabel, index.OfLabel).WithIndex(&infrav1.LocalCluster{}, localcluster.Identity, localcluster.OfIdentity).
		WithIndex(&certmanagerv1.Certificate{}, certificate.SecretName, certificate.OfSecretName)
	for _, obj := range objects {
		s.taken[obj.GetName()], s.taken[string(obj.GetUID())] = true, true
		b = b.WithObjects(obj.DeepCopyObject().(client.Object))
	}
	s.WithWatch = b.WithInterceptorFuncs(s.read.remember(creations(builder.Writes(s.before)))).Build()
	return s, nil
}

// before counts a write, and does what the fake client leaves to its caller.
func (s *store) before(verb string, obj client.Object) error {
	kind, err := s.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	if s.refuse != nil && verb != builder.DryRun {
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
	if verb != "create" {
		return nil
	}
	s.begin(obj)
	return nil
}

// count counts a request.
func (s *store) count(what string) {
	s.sent[what]++
	s.by[s.acts+": "+what]++
}

// begin gives an object what a server gives to a new one.
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

// list returns the objects of a kind, by name.
func (s *store) list(ctx context.Context, kind schema.GroupVersionKind) ([]client.Object, error) {
	list, err := s.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return nil, err
	}
	if err := s.List(ctx, list.(client.ObjectList)); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	items, err := meta.ExtractList(list)
	out := make([]client.Object, len(items))
	for i := range items {
		out[i] = items[i].(client.Object)
	}
	return out, err
}

// all lists the objects of all kinds.
func (s *store) all(ctx context.Context) (all []client.Object, err error) {
	for _, kind := range s.kinds {
		some, err := s.list(ctx, kind)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// collect deletes objects whose owners have all gone, as the garbage collector does.
func (s *store) collect(ctx context.Context) error {
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	alive := map[types.UID]bool{}
	for _, obj := range all {
		alive[obj.GetUID()] = true
	}
	for _, obj := range all {
		refs := obj.GetOwnerReferences()
		if len(refs) == 0 || !obj.GetDeletionTimestamp().IsZero() || slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return alive[r.UID] }) {
			continue
		}
		if err := s.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("collect %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
		}
	}
	return nil
}

// name makes a name with a counter in place of random letters.
func (s *store) name(prefix string) string {
	prefix = strings.TrimSuffix(prefix, "-") + "-"
	for {
		s.named[prefix]++
		if name := fmt.Sprintf("%s%d", prefix, s.named[prefix]); !s.taken[name] {
			return name
		}
	}
}
