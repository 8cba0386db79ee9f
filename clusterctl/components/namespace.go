// SPDX-License-Identifier: Apache-2.0

package components

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// global are the kinds that have no namespace, except those that the file defines itself.
// Any other kind is assumed to have one, as every kind of a provider must.
var global = kindSet(map[string]string{
	"":                             "Namespace Node PersistentVolume",
	"admissionregistration.k8s.io": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
	"apiextensions.k8s.io":         "CustomResourceDefinition",
	"apiregistration.k8s.io":       "APIService",
	certManagerGroup:               "ClusterIssuer",
	"certificates.k8s.io":          "CertificateSigningRequest ClusterTrustBundle",
	"flowcontrol.apiserver.k8s.io": "FlowSchema PriorityLevelConfiguration",
	"internal.apiserver.k8s.io":    "StorageVersion",
	"networking.k8s.io":            "IPAddress IngressClass ServiceCIDR",
	"node.k8s.io":                  "RuntimeClass",
	"policy":                       "PodSecurityPolicy",
	"rbac.authorization.k8s.io":    "ClusterRole ClusterRoleBinding",
	"resource.k8s.io":              "DeviceClass DeviceTaintRule ResourceSlice",
	"runtime.cluster.x-k8s.io":     "ExtensionConfig",
	"scheduling.k8s.io":            "PriorityClass",
	"security.openshift.io":        "SecurityContextConstraints",
	"storage.k8s.io":               "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass",
	"storagemigration.k8s.io":      "StorageVersionMigration",
})

func kindSet(groups map[string]string) map[schema.GroupKind]bool {
	all := map[schema.GroupKind]bool{}
	for group, kinds := range groups {
		for kind := range strings.FieldsSeq(kinds) {
			all[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	return all
}

// place puts all objects into one namespace, which is one of them. home is that of the
// file, if it has one.
func (c *Components) place(home *unstructured.Unstructured) error {
	if c.Namespace == "" {
		return errors.New("the file has no Namespace: say which to use with --target-namespace")
	}
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		return fmt.Errorf("%q cannot be the name of a namespace: %s", c.Namespace, problems[0])
	}
	m := newMover(c.objects, c.Namespace)
	if home != nil {
		m.home = home.GetName()
		m.own[m.home] = true
	} else {
		c.objects = append(c.objects, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": namespaceKind.Kind, "metadata": map[string]any{"name": m.to}}})
	}
	twice, err := m.learn(c.objects)
	if err != nil {
		return err
	}
	for _, obj := range twice {
		c.warn("%s is in the file twice: the last stays", describe(obj))
	}
	for _, obj := range c.objects {
		if ns := obj.GetNamespace(); m.home != "" && ns != "" && ns != m.home && ns != m.to && !m.global(groupKind(obj)) {
			c.warn("%s is of the namespace %s in the file, and goes into %s with all others", describe(obj), ns, m.to)
		}
		m.move(obj)
		for _, path := range m.left(obj) {
			c.warn("%s: %s names the namespace %s: it is text, and stays", describe(obj), path, m.home)
		}
	}
	return nil
}

// home is the Namespace in the file; nil if it has none.
func (c *Components) home() (home *unstructured.Unstructured, err error) {
	for _, obj := range c.objects {
		switch {
		case !is(obj, namespaceKind):
		case home != nil:
			return nil, fmt.Errorf("the file has two Namespaces, %s and %s: a provider has one at most", home.GetName(), obj.GetName())
		default:
			home = obj
		}
	}
	return home, nil
}

// Place puts the objects of a template into a namespace, with all references between
// them. A Namespace among them is renamed if they were in it.
func Place(objects []*unstructured.Unstructured, namespace string) error {
	m := newMover(objects, namespace)
	if _, err := m.learn(objects); err != nil {
		return err
	}
	for _, obj := range objects {
		m.move(obj)
	}
	return nil
}

// mover changes the namespace in objects.
type mover struct {
	home, to string
	own      map[string]bool           // the namespaces that objects are moved from
	accounts map[string]bool           // ServiceAccounts that are moved
	defined  map[schema.GroupKind]bool // whether kinds of the file have no namespace
}

func newMover(objects []*unstructured.Unstructured, to string) mover {
	m := mover{to: to, own: map[string]bool{}, accounts: map[string]bool{}, defined: map[schema.GroupKind]bool{}}
	for _, obj := range objects {
		if is(obj, customResourceDefinition) {
			m.defined[schema.GroupKind{Group: text(obj, "spec", "group"), Kind: text(obj, "spec", "names", "kind")}] = text(obj, "spec", "scope") == "Cluster"
		}
	}
	return m
}

// global reports whether a kind has no namespace.
func (m mover) global(kind schema.GroupKind) bool {
	if isGlobal, ok := m.defined[kind]; ok {
		return isGlobal
	}
	return global[kind]
}

// learn records what is moved. It returns duplicate objects, and refuses those that would
// become one. A Role or its binding may be in another namespace, to read what Kubernetes
// stores there, and does not make that namespace the provider's.
func (m mover) learn(objects []*unstructured.Unstructured) (twice []*unstructured.Unstructured, err error) {
	type key struct {
		kind schema.GroupKind
		name string
	}
	from := map[key]string{}
	for _, obj := range objects {
		kind, ns := groupKind(obj), obj.GetNamespace()
		k := key{kind, obj.GetName()}
		before, seen := from[k]
		switch {
		case obj.GetName() == "": // the API server generates one
		case seen && before != ns && !m.global(kind):
			return nil, fmt.Errorf("%s is in the namespaces %q and %q, and all go into %s: give them different names", describe(obj), before, ns, m.to)
		case seen:
			twice = append(twice, obj)
		}
		from[k] = ns
		if ns != "" && !m.global(kind) && kind.Group != "rbac.authorization.k8s.io" {
			m.own[ns] = true
		}
		if kind == (schema.GroupKind{Kind: "ServiceAccount"}) {
			m.accounts[obj.GetName()] = true
		}
	}
	return twice, nil
}

// move puts an object into the namespace, and changes its references to objects that are
// moved as well.
func (m mover) move(obj *unstructured.Unstructured) {
	kind := groupKind(obj)
	switch {
	case kind == namespaceKind:
		if m.own[obj.GetName()] {
			obj.SetName(m.to)
		}
	case !m.global(kind):
		obj.SetNamespace(m.to)
	}
	m.annotations(obj)
	switch kind.Kind {
	case "RoleBinding", "ClusterRoleBinding":
		for _, subject := range objectsIn(obj.Object["subjects"]) {
			m.subject(subject)
		}
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		for _, webhook := range objectsIn(obj.Object["webhooks"]) {
			m.service(webhook, "clientConfig", "service")
		}
	case customResourceDefinition.Kind:
		m.service(obj.Object, "spec", "conversion", "webhook", "clientConfig", "service")
	case "APIService":
		m.service(obj.Object, "spec", "service")
	case certificate.Kind:
		if kind == certificate {
			m.hosts(obj)
		}
	}
	for field, value := range obj.Object {
		if !opaque(kind, field) {
			m.walk(value)
		}
	}
}

// opaque are the fields that must not be interpreted: what a kind allows, and data.
func opaque(kind schema.GroupKind, field string) bool {
	switch {
	case field == "metadata":
		return kind != namespaceKind
	case kind == customResourceDefinition:
		return true
	}
	return kind.Group == "" && (kind.Kind == "ConfigMap" || kind.Kind == "Secret")
}

// annotations by which cert-manager finds the authority that it puts into an object.
func (m mover) annotations(obj *unstructured.Unstructured) {
	all := obj.GetAnnotations()
	for _, name := range []string{"cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret"} {
		if _, source, ok := strings.Cut(all[name], "/"); ok {
			all[name] = m.to + "/" + source
			obj.SetAnnotations(all)
		}
	}
}

// subject of a role: accounts that are moved, and those of a namespace that is.
func (m mover) subject(s map[string]any) {
	name, _ := s["name"].(string)
	switch s["kind"] {
	case "ServiceAccount":
		if ns, _ := s["namespace"].(string); ns == "" || m.own[ns] || m.accounts[name] {
			s["namespace"] = m.to
		}
	case "Group":
		if ns, ok := strings.CutPrefix(name, "system:serviceaccounts:"); ok && m.own[ns] {
			s["name"] = "system:serviceaccounts:" + m.to
		}
	case "User":
		parts := strings.Split(name, ":")
		if len(parts) == 4 && parts[0] == "system" && parts[1] == "serviceaccount" && (m.own[parts[2]] || m.accounts[parts[3]]) {
			parts[2] = m.to
			s["name"] = strings.Join(parts, ":")
		}
	}
}

// service that the API server calls. It is the provider's, in any namespace that the file has.
func (m mover) service(in map[string]any, path ...string) {
	v, _, _ := unstructured.NestedFieldNoCopy(in, path...) // a value that is not a map has none
	if service, ok := v.(map[string]any); ok {
		service["namespace"] = m.to
	}
}

// hosts are the names of Services that a Certificate is for.
func (m mover) hosts(obj *unstructured.Unstructured) {
	spec, _ := obj.Object["spec"].(map[string]any)
	if name, ok := spec["commonName"].(string); ok {
		spec["commonName"] = m.host(name)
	}
	names, _ := spec["dnsNames"].([]any)
	for i := range names {
		if name, ok := names[i].(string); ok {
			names[i] = m.host(name)
		}
	}
}

// host is the name of a Service: service.namespace, service.namespace.svc,
// service.namespace.svc.cluster.local.
func (m mover) host(name string) string {
	parts := strings.Split(name, ".")
	if len(parts) >= 3 && parts[2] == "svc" || len(parts) == 2 && m.own[parts[1]] {
		parts[1] = m.to
	}
	return strings.Join(parts, ".")
}

// walk changes references of any kind: the namespace next to the name of another object,
// or next to a class, and selectors of a namespace by its name.
func (m mover) walk(value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			m.walk(item)
		}
	case map[string]any:
		_, refers := value["name"].(string)
		for _, field := range []string{"namespace", "classNamespace", corev1.LabelMetadataName} {
			if ns, ok := value[field].(string); ok && m.own[ns] && (refers || field != "namespace") {
				value[field] = m.to
			}
		}
		if value["key"] == corev1.LabelMetadataName {
			values, _ := value["values"].([]any)
			for i := range values {
				if ns, ok := values[i].(string); ok && m.own[ns] {
					values[i] = m.to
				}
			}
		}
		for _, field := range value {
			m.walk(field)
		}
	}
}

// left are the paths of texts in an object that still contain the namespace of the file.
func (m mover) left(obj *unstructured.Unstructured) (paths []string) {
	if m.home == "" || m.home == m.to || is(obj, customResourceDefinition) {
		return nil
	}
	word := regexp.MustCompile(`(^|[^a-z0-9-])` + regexp.QuoteMeta(m.home) + `($|[^a-z0-9-])`)
	var look func(path string, value any)
	look = func(path string, value any) {
		switch value := value.(type) {
		case string:
			if word.MatchString(value) {
				paths = append(paths, strings.TrimPrefix(path, "."))
			}
		case []any:
			for i, item := range value {
				look(fmt.Sprintf("%s[%d]", path, i), item)
			}
		case map[string]any:
			for field, item := range value {
				look(path+"."+field, item)
			}
		}
	}
	look("", obj.Object)
	slices.Sort(paths)
	return paths
}
