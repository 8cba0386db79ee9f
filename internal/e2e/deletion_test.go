// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/manifests"
)

// TestDeletionAtAnyMomentLeavesNothing deletes clusters on their way up, each
// when another number of their objects exists.
func TestDeletionAtAnyMomentLeavesNothing(t *testing.T) {
	t.Parallel()
	const seed, moments = 7, 6
	random := rand.New(rand.NewPCG(seed, 0))
	fromTemplate, whole := 7, 45
	for i := range moments {
		after := fromTemplate + random.IntN(whole-fromTemplate)
		if i == 0 {
			after = fromTemplate // before any controller has acted
		}
		t.Run(fmt.Sprintf("after %d objects", after), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.create("c", shape{controlPlane: 3, workers: 2})
			f.eventually(func() error {
				if have := len(f.objectsOf("c")); have < after && f.settled("c") != nil {
					return fmt.Errorf("%d objects, want %d", have, after)
				}
				return nil
			})
			lc := &infrav1.LocalCluster{}
			f.must(f.Client.Get(t.Context(), f.key("c"), lc))
			f.remove("c")
			f.eventually(func() error {
				if left := f.objectsOf("c"); len(left) > 0 {
					return fmt.Errorf("left behind: %v", left)
				}
				return f.noServerListens(lc.Spec.ControlPlaneEndpoint)
			})
		})
	}
}

// TestANamespaceTakesItsClustersWithIt deletes everything together and in no order:
// Secrets and templates before the machines that were created with them.
func TestANamespaceTakesItsClustersWithIt(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{controlPlane: 3, workers: 2})
	f.becomes("c")
	lc := &infrav1.LocalCluster{}
	f.must(f.Client.Get(t.Context(), f.key("c"), lc))
	ns := &corev1.Namespace{}
	ns.Name = f.Namespace
	f.must(f.Client.Delete(t.Context(), ns))
	f.eventually(func() error {
		if left := f.objectsOf("c"); len(left) > 0 {
			return fmt.Errorf("still there: %v", left)
		}
		return f.noServerListens(lc.Spec.ControlPlaneEndpoint)
	})
	// Then the namespace's own controller follows, which goes through all kinds of
	// the plane again, one request after the other.
	f.eventually(func() error {
		if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s is there: %v (%v)", ns.Name, ns.Status.Conditions, err)
		}
		return nil
	})
}

func (f fleet) noServerListens(e clusterv1.APIEndpoint) error {
	if e.Host == "" {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(f.Context(), "tcp", net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
	if err == nil {
		return errors.Join(fmt.Errorf("a server listens on %s", conn.RemoteAddr()), conn.Close())
	}
	return nil
}

// remove deletes a cluster and waits until it is deleted with all its machines.
func (f fleet) remove(name string) {
	f.Helper()
	c := &clusterv1.Cluster{}
	c.Namespace, c.Name = f.Namespace, name
	f.must(client.IgnoreNotFound(f.Client.Delete(f.Context(), c)))
	f.eventually(func() error {
		err := f.Client.Get(f.Context(), f.key(name), c)
		if err == nil {
			return fmt.Errorf("Cluster %s is there: %s", name, conditions.Message(c, clusterv1.DeletingCondition))
		}
		return client.IgnoreNotFound(err)
	})
	for _, line := range f.objectsOf(name) {
		if kind, _, _ := strings.Cut(line, " "); kind == "Machine" || kind == "LocalMachine" || kind == "KubeadmConfig" {
			f.Errorf("%s is there without its Cluster", line)
		}
	}
}

// objectsOf lists all objects in the namespace that belong to a cluster by
// label or by name, as "Kind name".
func (f fleet) objectsOf(name string) []string {
	f.Helper()
	crds, err := manifests.CRDs()
	f.must(err)
	kinds := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ConfigMap")}
	for _, crd := range crds {
		if crd.Spec.Scope == "Namespaced" {
			kinds = append(kinds, schema.GroupVersionKind{Group: crd.Spec.Group, Version: crd.Spec.Versions[len(crd.Spec.Versions)-1].Name, Kind: crd.Spec.Names.Kind})
		}
	}
	var found []string
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		f.must(f.Client.List(f.Context(), list, client.InNamespace(f.Namespace)))
		for i := range list.Items {
			o := &list.Items[i]
			if o.Labels[clusterv1.ClusterNameLabel] == name || o.Name == name || strings.HasPrefix(o.Name, name+"-") {
				found = append(found, kind.Kind+" "+o.Name)
			}
		}
	}
	return found
}
