// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
	"github.com/capstan-dev/capstan/internal/pure/patchvalidation"
)

// made is an object created from a template of the class: a copy of it, or an object of
// the template's target kind.
type made struct {
	patches.Item // as drafted
	name         name
	current      *unstructured.Unstructured
	called       string                     // the name for patches, until the final name is set
	stays        bool                       // it stays unchanged, regardless of the draft
	wanted       *unstructured.Unstructured // with patches; nil if there is no draft
	err          error
}

// copied are the roles of templates that are copied.
var copied = map[patches.Role]bool{patches.ControlPlaneMachines: true, patches.DeploymentBootstrap: true, patches.DeploymentInfrastructure: true}

// begin builds an object or a copy from the template, with the labels by which it is
// found.
func (c *computation) begin(m made, ref clusterv1.ClusterClassTemplateReference, metadata clusterv1.ObjectMeta, labels map[string]string) *made {
	template, err := c.Templates(ref)
	if err == nil {
		m.Template = template
		m.Desired, err = c.from(template, copied[m.Role])
	}
	if err != nil {
		m.err = err
		return &m
	}
	m.name.kind = m.Desired.GetKind()
	m.name.parts = append([]string{string(m.Role)}, m.name.parts...)
	origin := map[string]string{
		clusterv1.TemplateClonedFromNameAnnotation:      ref.Name,
		clusterv1.TemplateClonedFromGroupKindAnnotation: ref.GroupVersionKind().GroupKind().String(),
	}
	m.Desired.SetLabels(joined(m.Desired.GetLabels(), metadata.Labels, labels))
	m.Desired.SetAnnotations(joined(m.Desired.GetAnnotations(), metadata.Annotations, origin))
	return &m
}

// from builds the object that a template is for. Fields that the server sets on the
// template, and annotations in which tools record it, are not copied.
func (c *computation) from(template *unstructured.Unstructured, copied bool) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion(template.GetAPIVersion())
	out.SetKind(template.GetKind())
	out.SetNamespace(c.Cluster.Namespace)
	if copied {
		out.SetLabels(template.GetLabels())
		out.SetAnnotations(without(template.GetAnnotations(), corev1.LastAppliedConfigAnnotation, rules.DataAnnotation))
		if spec, ok := template.Object["spec"]; ok {
			out.Object["spec"] = spec
		}
		out = out.DeepCopy()
		c.own(out)
		return out, nil
	}
	kind, ok := strings.CutSuffix(template.GetKind(), clusterv1.TemplateSuffix)
	if !ok || kind == "" {
		return nil, fmt.Errorf("%s %s: the kind of a template ends in %s: correct the reference in the ClusterClass", template.GetKind(), template.GetName(), clusterv1.TemplateSuffix)
	}
	out.SetKind(kind)
	of := contract.AnyTemplate()
	labels, _, err := of.Labels.Get(template)
	annotations, _, wrong := of.Annotations.Get(template)
	spec, there, bad := of.Spec.Get(template)
	if err := errors.Join(err, wrong, bad); err != nil {
		return nil, err
	}
	out.SetLabels(labels)
	out.SetAnnotations(annotations)
	if there {
		out.Object["spec"] = spec
	}
	return out.DeepCopy(), nil
}

// own sets an owner reference, so that the garbage collector deletes an object that gets
// no other owner.
func (c *computation) own(u *unstructured.Unstructured) {
	if c.Cluster.UID == "" { // in a file
		return
	}
	u.SetOwnerReferences([]metav1.OwnerReference{c.owner()})
}

func (c *computation) owner() metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion().String(), Kind: clusterv1.ClusterKind, Name: c.Cluster.Name, UID: c.Cluster.UID}
}

// call sets the name of a template or object that patches can use before its spec is
// complete.
func (c *computation) call(m *made) {
	if m.err != nil {
		return
	}
	name := ""
	if m.current != nil {
		name = m.current.GetName()
	} else if name, m.err = c.names.pick(m.name); m.err != nil {
		return
	}
	m.called = name
	m.Desired.SetName(name)
}

// calledSoFar is the current name; empty if it has none.
func (m *made) calledSoFar() string {
	if m.Desired == nil {
		return ""
	}
	return m.Desired.GetName()
}

// settle sets the final name of a template: a different spec belongs to another
// template. A template that was created from exactly the desired spec keeps its name: it
// differs because a user has changed it since, which is reverted, or because a webhook
// changes what is written, for which a replacement would never end. An object has its
// name already.
func (c *computation) settle(m *made) {
	if m.err != nil || m.stays && m.current != nil || !copied[m.Role] {
		return
	}
	of := m.name
	if m.current != nil {
		same, err := c.same(m)
		if same || err != nil {
			m.err = err
			return
		}
	}
	spec, err := json.Marshal(m.wanted.Object["spec"])
	if err != nil {
		m.err = err
		return
	}
	of.parts = append(slices.Clone(of.parts), fmt.Sprintf("%x", sha256.Sum256(spec)))
	name, err := c.names.pick(of)
	m.Desired.SetName(name)
	m.wanted.SetName(name)
	m.err = err
}

// lost is a template that is still referenced but was deleted, if the desired one is
// identical.
func (m *made) lost(kept clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured {
	if m == nil || m.current != nil || m.err != nil || m.wanted == nil || !copied[m.Role] || to(m.wanted) != kept {
		return nil
	}
	return m.wanted
}

// same reports whether the existing template can be used. Machines can be replaced by
// machines with another bootstrap provider, but not with another infrastructure.
func (c *computation) same(m *made) (bool, error) {
	switch err := TemplateChange(m.current, m.wanted); {
	case err != nil && m.Role == patches.DeploymentBootstrap:
		return false, nil
	case err != nil:
		return false, err
	case c.Same != nil:
		return c.Same(m.current, m.wanted)
	}
	return reflect.DeepEqual(m.current.Object["spec"], m.wanted.Object["spec"]), nil
}

// differs reports whether a template that waits for an upgrade has pending changes.
func (m *made) differs(c *computation) bool {
	if m == nil || m.current == nil || m.err != nil || m.wanted == nil || !copied[m.Role] {
		return false
	}
	same, err := c.same(m)
	return !same && err == nil
}

// applied is what the topology has applied of an object; nil for nothing.
func (c *computation) applied(current *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if current == nil || c.Applied == nil {
		return nil, nil
	}
	return c.Applied(current)
}

// held are the fields in which an object that stays as it was applied differs from its
// desired state, except for the API version and the fields that change by the upgrade
// that it waits for.
func held(applied, wanted *unstructured.Unstructured, but ...string) []string {
	return patchvalidation.Outside(patchvalidation.Differences(trimmed(applied.Object), trimmed(wanted.Object)), append(but, "apiVersion", "metadata.ownerReferences")...)
}

// leaveEndpoint removes empty fields of the endpoint that a template contains: a
// provider fills them in, and an apply must not empty them again.
func leaveEndpoint(u *unstructured.Unstructured) {
	for field, zero := range map[string]any{"host": "", "port": int64(0)} {
		if value, there, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "controlPlaneEndpoint", field); there && (value == zero || value == nil) {
			unstructured.RemoveNestedField(u.Object, "spec", "controlPlaneEndpoint", field)
		}
	}
	if at, there, err := unstructured.NestedMap(u.Object, "spec", "controlPlaneEndpoint"); there && err == nil && len(at) == 0 {
		unstructured.RemoveNestedField(u.Object, "spec", "controlPlaneEndpoint")
	}
}

// joined merges several maps; later ones have precedence. Nil if the result is empty.
func joined(all ...map[string]string) map[string]string {
	var out map[string]string
	for _, m := range all {
		if out == nil && len(m) > 0 {
			out = map[string]string{}
		}
		maps.Copy(out, m)
	}
	return out
}

func without(m map[string]string, keys ...string) map[string]string {
	out := maps.Clone(m)
	for _, key := range keys {
		delete(out, key)
	}
	return out
}

// trimmed returns a value without fields that are empty, at any depth.
func trimmed(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for name, v := range fields {
		v = trimmed(v)
		if m, ok := v.(map[string]any); v == nil || ok && len(m) == 0 {
			continue
		}
		out[name] = v
	}
	return out
}
