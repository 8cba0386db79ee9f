// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// state is the objects of a side that have the kinds of a plan and are in its namespaces.
type state map[objectKey]*unstructured.Unstructured

type objectKey struct {
	kind            schema.GroupKind
	namespace, name string
}

func keyOf(i plan.Item) objectKey { return objectKey{i.Kind.GroupKind(), i.Namespace, i.Name} }

func (s state) find(i plan.Item) *unstructured.Unstructured { return s[keyOf(i)] }

// readState lists the kinds of a plan, with one request for each, regardless of the
// number of objects.
func readState(ctx context.Context, p Plane, of *plan.Plan, parallel int) (state, error) {
	all, err := readPlaces(ctx, p, placesOf(of.Items), parallel)
	s := state{}
	for _, obj := range all {
		s[objectKey{obj.GroupVersionKind().GroupKind(), obj.GetNamespace(), obj.GetName()}] = obj
	}
	return s, err
}

// placesOf are the places of some items.
func placesOf(items []plan.Item) (places []place) {
	for _, i := range items {
		if at := (place{i.Kind, i.Namespace}); !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	return places
}

// take deletes an object without its controllers deleting what it represents. If the
// object changed since it was read, same decides whether it may still be deleted.
func take(ctx context.Context, p Plane, kind plan.Kind, obj *unstructured.Unstructured, same func(*unstructured.Unstructured) error) error {
	const patience = 5 // for controllers that write again when a pause starts
	for range patience {
		err := takeAsRead(ctx, p, obj.DeepCopy())
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		uid := obj.GetUID()
		obj, err = p.Get(ctx, kind, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()})
		if apierrors.IsNotFound(err) || err == nil && obj.GetUID() != uid {
			return nil
		}
		if err == nil {
			err = same(obj)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %s keeps changing while it must be deleted: stop the controller or client that writes it", p, plan.Name(obj))
}

// takeAsRead deletes an object in the version that was read. It removes the finalizers
// last: controllers would add them again until the object is being deleted.
func takeAsRead(ctx context.Context, p Plane, obj *unstructured.Unstructured) error {
	if obj.GetDeletionTimestamp() == nil {
		if _, marked := obj.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; !marked && mindsDeletion(obj) {
			mark := map[string]any{"metadata": map[string]any{
				"annotations":     map[string]any{clusterctlv1.DeleteForMoveAnnotation: ""},
				"resourceVersion": obj.GetResourceVersion(),
			}}
			if err := p.Patch(ctx, obj, mark); err != nil {
				return err
			}
		}
		if err := p.Delete(ctx, obj); err != nil {
			return err
		}
	}
	if len(obj.GetFinalizers()) == 0 {
		return nil
	}
	return p.Patch(ctx, obj, map[string]any{"metadata": map[string]any{"finalizers": nil}})
}

// mindsDeletion reports whether a controller may act on the deletion of an object, and
// must be able to see that it only moves. No controller acts on a Secret or a ConfigMap
// without finalizer; they are a third of all objects.
func mindsDeletion(obj *unstructured.Unstructured) bool {
	kind := obj.GroupVersionKind().GroupKind()
	return len(obj.GetFinalizers()) > 0 || kind != secrets.GroupKind() && kind != configMaps.GroupKind()
}

// replacedName is the name of the Secret at the target that stores, until the move is
// complete, the objects that had the names of moved objects before.
const replacedName = "capstan-move-replaced"

// keepReplaced stores an object that is about to be replaced.
func keepReplaced(ctx context.Context, p Plane, namespace string, i plan.Item, obj *unstructured.Unstructured) error {
	text, err := json.Marshal(obj.Object)
	if err != nil {
		return fmt.Errorf("%s: %w", i, err)
	}
	data := map[string]any{string(i.UID): base64.StdEncoding.EncodeToString(text)}
	secret := &unstructured.Unstructured{Object: map[string]any{"data": data}}
	secret.SetGroupVersionKind(secrets.GroupVersionKind)
	secret.SetNamespace(namespace)
	secret.SetName(replacedName)
	err = p.Create(ctx, secret)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	secret.SetUID("")
	return p.Patch(ctx, secret, map[string]any{"data": data})
}

// readReplaced reads what was stored, by the UIDs of the items that replaced it.
func readReplaced(ctx context.Context, p Plane, namespace string) (map[types.UID]*unstructured.Unstructured, error) {
	secret, err := p.Get(ctx, secrets, types.NamespacedName{Namespace: namespace, Name: replacedName})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, _, _ := unstructured.NestedStringMap(secret.Object, "data")
	all := map[types.UID]*unstructured.Unstructured{}
	for uid, packed := range data {
		text, err := base64.StdEncoding.DecodeString(packed)
		obj := &unstructured.Unstructured{}
		if err == nil {
			err = obj.UnmarshalJSON(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: Secret %s/%s, key %s: %w", p, namespace, replacedName, uid, err)
		}
		all[types.UID(uid)] = obj
	}
	return all, nil
}

// removeReplaced deletes what was stored.
func removeReplaced(ctx context.Context, p Plane, namespace string) error {
	secret, err := p.Get(ctx, secrets, types.NamespacedName{Namespace: namespace, Name: replacedName})
	if err == nil {
		err = p.Delete(ctx, secret)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
