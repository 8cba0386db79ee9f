// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// withClasses inserts before objects the classes that their Clusters name and that are
// not among them. A class in another namespace than its Cluster is not managed here.
func (o *GenerateOptions) withClasses(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	done := map[string]bool{}
	for _, obj := range objects {
		if isCore(obj, clusterv1.ClusterClassKind) {
			done[obj.GetName()] = true
		}
	}
	var classes []*unstructured.Unstructured
	for _, obj := range objects {
		key := classOf(obj)
		if key.Namespace != "" && key.Namespace != cmp.Or(obj.GetNamespace(), o.Namespace) || done[key.Name] || len(validation.IsDNS1123Subdomain(key.Name)) > 0 {
			continue
		}
		done[key.Name] = true
		raw, err := o.Class(client.ObjectKey{Namespace: o.Namespace, Name: key.Name})
		if err != nil {
			return nil, err
		}
		class, err := o.fill(raw)
		if err != nil {
			return nil, fmt.Errorf("ClusterClass %s: %w", key.Name, err)
		}
		classes = append(classes, class...)
	}
	return append(classes, objects...), nil
}

func isCore(obj *unstructured.Unstructured, kind string) bool {
	return obj.GroupVersionKind().GroupKind() == schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: kind}
}

// classOf is the class that a Cluster names, in v1beta2 or before; it has no name if
// there is none, and a namespace only if the Cluster specifies one.
func classOf(obj *unstructured.Unstructured) client.ObjectKey {
	if !isCore(obj, clusterv1.ClusterKind) {
		return client.ObjectKey{}
	}
	in := func(path ...string) string {
		s, _, _ := unstructured.NestedString(obj.Object, append([]string{"spec", "topology"}, path...)...) // "" for another form
		return s
	}
	return client.ObjectKey{
		Namespace: cmp.Or(in("classRef", "namespace"), in("classNamespace")),
		Name:      cmp.Or(in("classRef", "name"), in("class")),
	}
}

// HasClass reports whether the management cluster has a ClusterClass.
func (c *Client) HasClass(ctx context.Context, key client.ObjectKey) (bool, error) {
	err := references.Explain(c.mgmt.Get(ctx, key, &clusterv1.ClusterClass{}), clusterv1.ClusterClassKind)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get ClusterClass %s: %w", key, err)
	}
	return true, nil
}

const (
	// classTimeout is how long to wait for the class of a new Cluster to become ready,
	// which takes a moment, unless an extension is called. A Cluster that is created
	// before is not checked against its class.
	classTimeout = 5 * time.Second
	classPeriod  = 50 * time.Millisecond
)

// awaitClass returns when the class of a Cluster is ready, or after classTimeout.
func (c *Client) awaitClass(ctx context.Context, cluster *unstructured.Unstructured) {
	key := classOf(cluster)
	if key.Name == "" {
		return
	}
	key.Namespace = cmp.Or(key.Namespace, cluster.GetNamespace())
	ctx, cancel := context.WithTimeout(ctx, classTimeout)
	defer cancel()
	for class := (&clusterv1.ClusterClass{}); c.mgmt.Get(ctx, key, class) == nil; {
		if class.Status.ObservedGeneration == class.Generation && conditions.IsTrue(class, clusterv1.ClusterClassVariablesReadyCondition) || lifecycle.Sleep(ctx, classPeriod) != nil {
			return
		}
	}
}
