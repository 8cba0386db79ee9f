// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
)

func (r *role) rehearsal() check {
	return r.say("A change of an XTemplate can be rehearsed.",
		"A dry run of a server-side apply with the annotation topology.cluster.x-k8s.io/dry-run changes spec.template.spec without an error, even if templates cannot be changed otherwise: this is how a managed topology finds out whether a new template is needed. It can be seen with a change in the config.",
		check{remedy: "Have the webhook that refuses changes let dry runs with the annotation pass; a rule in the schema cannot.", live: true, test: rehearsed})
}

// makeTemplate creates the config's template, or one with the example's spec. It is
// created once.
func (s *subject) makeTemplate(ctx context.Context) (*unstructured.Unstructured, error) {
	if s.made != nil {
		return s.made, nil
	}
	api, err := s.kind.TemplateVersion()
	if err != nil {
		return nil, conformance.Skip("%w", err)
	}
	obj := s.template
	if obj == nil {
		obj = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": s.Example.DeepCopy().Object["spec"]}}}}
		obj.SetGroupVersionKind(schema.GroupVersionKind{Group: s.kind.Group, Version: api, Kind: s.kind.Kind + "Template"})
	}
	s.made, err = s.World.Make(ctx, obj, s.Main.Name)
	return s.made, err
}

func rehearsed(ctx context.Context, s *subject) error {
	change := s.role.of(s.config).Change
	if len(change) == 0 {
		return conformance.Skip("the config has no change of the template")
	}
	made, err := s.makeTemplate(ctx)
	if err != nil {
		return err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(made.GroupVersionKind())
	obj.SetNamespace(made.GetNamespace())
	obj.SetName(made.GetName())
	testnamespace.Annotate(obj, clusterv1.TopologyDryRunAnnotation, testnamespace.BySuite)
	set(obj, runtime.DeepCopyJSONValue(made.Object["spec"]), "spec")
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec", "template", "spec")
	set(obj, merge(spec, change), "spec", "template", "spec")
	if err := s.World.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(testnamespace.BySuite), client.ForceOwnership, client.DryRunAll); err != nil {
		return fmt.Errorf("the change %s of %s %s was refused: %w", objectchecks.JSON(change), made.GetKind(), made.GetName(), err)
	}
	return nil
}

// changed applies the config's change to the spec of the main object, as an in-place
// update does, checks that it has no effect, and reverts it.
func (s *subject) changed(ctx context.Context, same func() error) error {
	change := s.role.of(s.config).Change
	if len(change) == 0 {
		return conformance.Skip("the config has no change")
	}
	obj, err := s.Now()
	if err != nil {
		return err
	}
	spec, _, _ := unstructured.NestedMap(obj.Object, "spec")
	if err := s.World.Change(ctx, s.Main, func(obj *unstructured.Unstructured) {
		testnamespace.Annotate(obj, clusterv1.UpdateInProgressAnnotation, testnamespace.BySuite)
		set(obj, merge(spec, change), "spec")
	}); err != nil {
		return conformance.Skip("its spec cannot be changed: %w", err)
	}
	found := s.World.Quietly(ctx, same)
	if found == nil {
		found = same() // what it checks need not be watched
	}
	return errors.Join(found, s.World.Change(ctx, s.Main, func(obj *unstructured.Unstructured) {
		testnamespace.Annotate(obj, clusterv1.UpdateInProgressAnnotation, "")
		for field := range change {
			if was, ok := spec[field]; ok {
				set(obj, was, "spec", field)
			} else {
				unstructured.RemoveNestedField(obj.Object, "spec", field)
			}
		}
	}))
}

// merge puts the fields of change into a copy of into, as a merge patch does.
func merge(into, change map[string]any) map[string]any {
	out := maps.Clone(into)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range change {
		inner, ok := v.(map[string]any)
		if old, is := out[k].(map[string]any); ok && is {
			out[k] = merge(old, inner)
			continue
		}
		out[k] = runtime.DeepCopyJSONValue(v)
	}
	return out
}

func capacityReadable(ctx context.Context, s *subject) error {
	made, err := s.makeTemplate(ctx)
	if err != nil {
		return err
	}
	var capacity, node map[string]any
	if err := s.World.Within(ctx, s.World.Limits.Quiet, func() error {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(made.GroupVersionKind())
		if err := s.World.Client.Get(ctx, client.ObjectKeyFromObject(made), obj); err != nil {
			return err
		}
		capacity, _, _ = unstructured.NestedMap(obj.Object, "status", "capacity")
		node, _, _ = unstructured.NestedMap(obj.Object, "status", "nodeInfo")
		if len(capacity) == 0 && len(node) == 0 {
			return fmt.Errorf("%s %s reports nothing about its machines", made.GetKind(), made.GetName())
		}
		return nil
	}); err != nil {
		return conformance.Skip("%w", err)
	}
	for name, v := range capacity {
		q, err := resource.ParseQuantity(fmt.Sprint(v))
		if err != nil || q.Sign() < 0 {
			return fmt.Errorf("status.capacity.%s is %s, which is no quantity", name, objectchecks.JSON(v))
		}
	}
	if len(node) == 0 {
		return nil
	}
	if !slices.Contains([]any{"amd64", "arm64", "s390x", "ppc64le", nil}, node["architecture"]) || node["operatingSystem"] == "" {
		return fmt.Errorf("status.nodeInfo is %s", objectchecks.JSON(node))
	}
	return nil
}
