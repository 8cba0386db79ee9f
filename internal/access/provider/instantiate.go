// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// Copy is an object to be created from a template.
type Copy struct {
	Template *Object
	Name     string
	Cluster  string // the value of the cluster-name label
	// Labels and Annotations take precedence over those of the template.
	Labels, Annotations map[string]string
	// Owner of the new object; nil for none.
	Owner *metav1.OwnerReference
}

// Instantiate builds the object: the template's spec.template, with an annotation
// of its origin. A template without spec.template gives an object without a spec.
// It is pure; Make creates the object.
func Instantiate(c Copy) (*Object, error) {
	t := c.Template
	kind, ok := strings.CutSuffix(t.GetKind(), clusterv1.TemplateSuffix)
	if !ok || kind == "" {
		return nil, fmt.Errorf("%s %s/%s is not a template: its kind must end in %s", t.GetKind(), t.GetNamespace(), t.GetName(), clusterv1.TemplateSuffix)
	}
	spec, specified, err := contract.AnyTemplate().Spec.Get(t.Unstructured)
	if err != nil {
		return nil, err
	}
	labels, _, err := contract.AnyTemplate().Labels.Get(t.Unstructured)
	if err != nil {
		return nil, err
	}
	annotations, _, err := contract.AnyTemplate().Annotations.Get(t.Unstructured)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	if specified {
		obj.Object["spec"] = runtime.DeepCopyJSON(spec)
	}
	obj.SetAPIVersion(t.GetAPIVersion())
	obj.SetKind(kind)
	obj.SetNamespace(t.GetNamespace())
	obj.SetName(c.Name)
	obj.SetLabels(metadata.Union(labels, c.Labels, map[string]string{clusterv1.ClusterNameLabel: c.Cluster}))
	obj.SetAnnotations(metadata.Union(annotations, c.Annotations, map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      t.GetName(),
		clusterv1.TemplateClonedFromGroupKindAnnotation: t.GroupVersionKind().GroupKind().String(),
	}))
	if c.Owner != nil {
		obj.SetOwnerReferences([]metav1.OwnerReference{*c.Owner})
	}
	return &Object{obj, t.Contract}, nil
}

// CopyKind returns the kind of the objects of a template.
func CopyKind(template schema.GroupKind) schema.GroupKind {
	return schema.GroupKind{Group: template.Group, Kind: strings.TrimSuffix(template.Kind, clusterv1.TemplateSuffix)}
}

// Make creates the object, and pushes its deletion onto made. It returns a
// reference to it.
func (o *Objects) Make(ctx context.Context, c Copy, manager client.FieldOwner, made *lifecycle.Stack) (ref clusterv1.ContractVersionedObjectReference, err error) {
	obj, err := Instantiate(c)
	if err != nil {
		return ref, err
	}
	if err := o.mgmt.Create(ctx, obj.Unstructured, manager); err != nil {
		return ref, fmt.Errorf("create %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err)
	}
	made.Push("creation of "+obj.GetKind()+" "+obj.GetName(), func(ctx context.Context) error { return o.Delete(ctx, obj) })
	gvk := obj.GroupVersionKind()
	return clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: obj.GetName()}, nil
}
