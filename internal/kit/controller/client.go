// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// recordingClient notes every write for the object under reconcile.
type recordingClient struct{ client.Client }

func (c recordingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	err := c.Client.Create(ctx, obj, opts...)
	if err == nil {
		note(ctx, c, obj, true, false)
	}
	return err
}

func (c recordingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	err := c.Client.Update(ctx, obj, opts...)
	if err == nil {
		note(ctx, c, obj, false, false)
	}
	return err
}

func (c recordingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	if err == nil {
		note(ctx, c, obj, patch.Type() == types.ApplyPatchType, false) // an apply may have created it
	}
	return err
}

func (c recordingClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	err := c.Client.Delete(ctx, obj, opts...)
	if err == nil {
		note(ctx, c, obj, false, true)
	}
	return err
}

func (c recordingClient) Status() client.SubResourceWriter {
	return recordingStatus{c.Client.Status(), c}
}

type recordingStatus struct {
	client.SubResourceWriter
	c recordingClient
}

func (s recordingStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	err := s.SubResourceWriter.Update(ctx, obj, opts...)
	if err == nil {
		note(ctx, s.c, obj, false, false)
	}
	return err
}

func (s recordingStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	err := s.SubResourceWriter.Patch(ctx, obj, patch, opts...)
	if err == nil {
		note(ctx, s.c, obj, false, false)
	}
	return err
}

// custom reports whether an API group is served from a CRD: those groups have their
// own domain, Kubernetes' groups end in k8s.io or have no dot.
func custom(group string) bool {
	if strings.HasSuffix(group, "cluster.x-k8s.io") {
		return true
	}
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// empty is an object of the kind of proto to read into from the cache. Core kinds
// are read by their types, also where they are written without: another cache of
// them would only be asked here.
func empty(scheme *runtime.Scheme, proto client.Object) client.Object {
	if u, ok := proto.(*unstructured.Unstructured); ok {
		if gvk := u.GroupVersionKind(); gvk.Group == clusterv1.GroupVersion().Group {
			if typed, err := scheme.New(gvk); err == nil {
				return typed.(client.Object)
			}
		}
		e := &unstructured.Unstructured{}
		e.SetGroupVersionKind(u.GroupVersionKind())
		return e
	}
	return reflect.New(reflect.TypeOf(proto).Elem()).Interface().(client.Object)
}
