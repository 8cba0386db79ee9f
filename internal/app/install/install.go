// SPDX-License-Identifier: Apache-2.0

// Package install creates in an API server what Capstan's controllers need before
// they can run against it: the definitions of all kinds, and the roles.
//
// CRDVersions returns the API version with which a kind is referred to in old API
// versions: its CustomResourceDefinition has it in a label.
package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	rbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/manifests"
)

const (
	// establishTimeout is how long the API server may take to serve new kinds.
	establishTimeout = 30 * time.Second
	// cacheTimeout is how long it may take to read all objects of a kind, and
	// cachePeriod how often to check whether it has.
	cacheTimeout = 30 * time.Second
	cachePeriod  = 50 * time.Millisecond
	// atOnce is how many definitions are written at a time.
	atOnce = 8
	// heldBack is more than the two seconds of customresource_handler.go.
	heldBack = 5 * time.Second
)

// Install updates the definitions and roles of the API server, and returns when all
// kinds are served. Objects that are up to date are not written.
func Install(ctx context.Context, cfg *rest.Config, by Conversion) error {
	crds, err := manifests.CRDs()
	if err != nil {
		return err
	}
	if err := install(ctx, cfg, crds, by.choose, func(*apiextensionsv1.CustomResourceDefinition) error { return nil }); err != nil {
		return err
	}
	return installRoles(ctx, cfg)
}

// Plane updates a management plane that runs providers: definitions and roles as
// for an API server alone, and the inventory. A plane without providers of Cluster
// API gets none of that.
func Plane(ctx context.Context, cfg *rest.Config, providers []string) error {
	crds, err := ofPlane(providers)
	if err != nil {
		return err
	}
	if err := alone(ctx, cfg, crds); err != nil {
		return err
	}
	if controllers.ClusterAPI(providers) {
		if err := installRoles(ctx, cfg); err != nil {
			return err
		}
	}
	return writeInventory(ctx, cfg, providers)
}

// alone is Install for the only API server of its store.
//
// An API server delays the creation of an object for two seconds if its kind was
// established less than two seconds ago, because another API server on the same
// store may not have the kind yet. Without another one, a new kind is given an
// older date, so that the first cluster need not wait.
//
// It also waits until all kinds, as they are stored, are in the watch caches of the
// API server. The first request for a kind creates its storage, whose cache is then
// filled, which takes a second with thousands of objects. Until then, a watch is
// refused with a retry after one second, and a list is read from etcd instead of
// the cache; this would happen to the first requests of each controller.
func alone(ctx context.Context, cfg *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition) error {
	c, err := apiextensions.NewForConfig(asInstaller(cfg))
	if err != nil {
		return err
	}
	if err := install(ctx, cfg, crds, convertInProcess, backdate(ctx, c)); err != nil {
		return err
	}
	return each(crds, func(crd *apiextensionsv1.CustomResourceDefinition) error {
		for _, v := range crd.Spec.Versions {
			if !v.Storage {
				continue // its cache starts with its first reader
			}
			if err := awaitCache(ctx, c.RESTClient(), "/apis", crd.Spec.Group, v.Name, crd.Spec.Names.Plural); err != nil {
				return fmt.Errorf("read %s: %w", crd.Name, err)
			}
		}
		return nil
	})
}

// awaitCache returns when objects of a kind are read from the watch cache, or after
// a timeout: an early return only costs time. Its request can only be answered from
// the cache: a list without limit, of any age, of an object by its name.
func awaitCache(ctx context.Context, c rest.Interface, path ...string) error {
	err := wait.PollUntilContextTimeout(ctx, cachePeriod, cacheTimeout, true, func(ctx context.Context) (bool, error) {
		err := c.Get().AbsPath(path...).Param("resourceVersion", "0").Param("fieldSelector", "metadata.name=none").MaxRetries(0).Do(ctx).Error()
		if apierrors.IsTooManyRequests(err) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) {
		return ctx.Err()
	}
	return err
}

// backdate sets the establishment of a kind to an older date.
func backdate(ctx context.Context, c apiextensions.ApiextensionsV1Interface) func(*apiextensionsv1.CustomResourceDefinition) error {
	return func(crd *apiextensionsv1.CustomResourceDefinition) error {
		crd = crd.DeepCopy()
		for i := range crd.Status.Conditions {
			if cond := &crd.Status.Conditions[i]; cond.Type == apiextensionsv1.Established {
				cond.LastTransitionTime.Time = cond.LastTransitionTime.Add(-heldBack)
			}
		}
		_, err := c.CustomResourceDefinitions().UpdateStatus(ctx, crd, metav1.UpdateOptions{FieldManager: "capstan"})
		if apierrors.IsConflict(err) {
			return nil // it has changed since: then waiting is better
		}
		return err
	}
}

func asInstaller(cfg *rest.Config) *rest.Config {
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "capstan-install")
	cfg.ContentType = runtime.ContentTypeProtobuf
	return cfg
}

// install calls fresh for each kind that it has newly established. convert sets how
// objects of a definition are converted; live is the stored definition or nil.
func install(ctx context.Context, cfg *rest.Config, crds []*apiextensionsv1.CustomResourceDefinition, convert func(want, live *apiextensionsv1.CustomResourceDefinition), fresh func(*apiextensionsv1.CustomResourceDefinition) error) error {
	cfg = asInstaller(cfg)
	definitions, err := apiextensions.NewForConfig(cfg)
	if err != nil {
		return err
	}
	established, err := installCRDs(ctx, definitions.CustomResourceDefinitions(), crds, convert)
	if err != nil {
		return err
	}
	return each(established, fresh)
}

// installCRDs returns the definitions that it has newly established.
func installCRDs(ctx context.Context, c apiextensions.CustomResourceDefinitionInterface, crds []*apiextensionsv1.CustomResourceDefinition, convert func(want, live *apiextensionsv1.CustomResourceDefinition)) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	list, err := c.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	live := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for i := range list.Items {
		live[list.Items[i].Name] = &list.Items[i]
	}
	write := func(want *apiextensionsv1.CustomResourceDefinition) error {
		if replaced(live[want.Name], want) {
			return nil
		}
		now := live[want.Name]
		err := withReplicas(func() error {
			if len(want.Spec.Versions) > 1 {
				convert(want, now)
			}
			err := writeCRD(ctx, c, now, want)
			if err != nil {
				if other, unread := c.Get(ctx, want.Name, metav1.GetOptions{}); unread == nil {
					now = other
				}
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("install CustomResourceDefinition %s: %w", want.Name, err)
		}
		return nil
	}
	if err := each(crds, write); err != nil {
		return nil, err
	}
	pending := map[string]bool{}
	var halfway []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range crds {
		switch was := live[crd.Name]; {
		case was == nil:
			pending[crd.Name] = true
		case !established(was):
			pending[crd.Name] = true
			halfway = append(halfway, was)
		}
	}
	if err := each(halfway, func(crd *apiextensionsv1.CustomResourceDefinition) error { return touch(ctx, c, crd) }); err != nil {
		return nil, err
	}
	return waitEstablished(ctx, c, pending)
}

// touch triggers the establishment of a definition whose names are accepted but
// which is not established. An API server that stops in between leaves such a
// definition: the next one establishes it only after a change, and a wait would
// never end. The change is a date.
func touch(ctx context.Context, c apiextensions.CustomResourceDefinitionInterface, crd *apiextensionsv1.CustomResourceDefinition) error {
	live, err := c.Get(ctx, crd.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get CustomResourceDefinition %s: %w", crd.Name, err)
	}
	for i := range live.Status.Conditions {
		date := &live.Status.Conditions[i].LastTransitionTime
		date.Time = date.Add(-time.Second)
	}
	_, err = c.UpdateStatus(ctx, live, metav1.UpdateOptions{FieldManager: "capstan"})
	if apierrors.IsConflict(err) || apierrors.IsForbidden(err) {
		return nil // it has changed since, or must not be changed here: the wait reports it
	}
	if err != nil {
		return fmt.Errorf("touch CustomResourceDefinition %s: %w", crd.Name, err)
	}
	return nil
}

func writeCRD(ctx context.Context, c apiextensions.CustomResourceDefinitionInterface, live, want *apiextensionsv1.CustomResourceDefinition) error {
	setDefaults(want)
	if live == nil {
		needsNoMigration(want)
		_, err := c.Create(ctx, want, metav1.CreateOptions{FieldManager: "capstan"})
		return err
	}
	if equality.Semantic.DeepEqual(live.Spec, want.Spec) && contains(live.Labels, want.Labels) && contains(live.Annotations, want.Annotations) {
		return nil
	}
	update := live.DeepCopy()
	update.Spec = want.Spec
	update.Labels, update.Annotations = merge(live.Labels, want.Labels), merge(live.Annotations, want.Annotations)
	_, err := c.Update(ctx, update, metav1.UpdateOptions{FieldManager: "capstan"})
	return err
}

// replaced reports whether cert-manager's own definition has replaced a definition
// of certificates, which then stays unchanged.
func replaced(live, want *apiextensionsv1.CustomResourceDefinition) bool {
	return live != nil && certmanagerv1.Ours(want.Labels) && !certmanagerv1.Ours(live.Labels)
}

// waitEstablished returns the pending definitions when all of them are served.
func waitEstablished(ctx context.Context, c apiextensions.CustomResourceDefinitionInterface, pending map[string]bool) (done []*apiextensionsv1.CustomResourceDefinition, err error) {
	if len(pending) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, establishTimeout)
	defer cancel()
	w, err := c.Watch(ctx, metav1.ListOptions{}) // starts with the existing objects
	if err != nil {
		return nil, fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return nil, fmt.Errorf("watch CustomResourceDefinitions: closed while waiting for %v", slices.Sorted(maps.Keys(pending)))
			}
			if crd, ok := event.Object.(*apiextensionsv1.CustomResourceDefinition); ok && pending[crd.Name] && established(crd) {
				delete(pending, crd.Name)
				done = append(done, crd)
			}
			if len(pending) == 0 {
				return done, nil
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %v to be served: %w", slices.Sorted(maps.Keys(pending)), ctx.Err())
		}
	}
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func installRoles(ctx context.Context, cfg *rest.Config) error {
	access, err := rbac.NewForConfig(asInstaller(cfg))
	if err != nil {
		return err
	}
	roles, err := manifests.RBAC()
	if err != nil {
		return err
	}
	return each(roles, func(want *rbacv1.ClusterRole) error {
		if err := withReplicas(func() error { return writeRole(ctx, access.ClusterRoles(), want) }); err != nil {
			return fmt.Errorf("install ClusterRole %s: %w", want.Name, err)
		}
		return nil
	})
}

func writeRole(ctx context.Context, c rbac.ClusterRoleInterface, want *rbacv1.ClusterRole) error {
	live, err := c.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = c.Create(ctx, want, metav1.CreateOptions{FieldManager: "capstan"})
		return err
	}
	if err != nil {
		return err
	}
	update := live.DeepCopy()
	update.AggregationRule = want.AggregationRule
	if want.AggregationRule == nil { // otherwise the aggregation sets the rules
		update.Rules = want.Rules
	}
	update.Labels, update.Annotations = merge(live.Labels, want.Labels), merge(live.Annotations, want.Annotations)
	if equality.Semantic.DeepEqual(live, update) {
		return nil
	}
	_, err = c.Update(ctx, update, metav1.UpdateOptions{FieldManager: "capstan"})
	return err
}

// withReplicas repeats do if another replica, which started at the same time, wrote the
// same object.
func withReplicas(do func() error) error {
	return retry.OnError(retry.DefaultBackoff, func(err error) bool { return apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) }, do)
}

// each calls do for all items, a few at a time, and joins the errors.
func each[T any](items []T, do func(T) error) error {
	var (
		running sync.WaitGroup
		slots   = make(chan struct{}, atOnce)
		errs    = make([]error, len(items))
	)
	for i, item := range items {
		slots <- struct{}{}
		running.Go(func() {
			errs[i] = recovery.Call(context.Background(), func() error {
				defer func() { <-slots }()
				return do(item)
			})
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// contains reports whether every pair of want is in m.
func contains(m, want map[string]string) bool {
	for k, v := range want {
		if got, ok := m[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// merge returns m with the pairs of want set in it.
func merge(m, want map[string]string) map[string]string {
	if len(want) == 0 {
		return m
	}
	all := maps.Clone(m)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, want)
	return all
}
