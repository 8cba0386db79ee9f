// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Objects are the Secrets and ConfigMaps in a Pod's namespace that it refers to, by
// name. Objects that do not exist are not included.
type Objects struct {
	Secrets    map[string]*corev1.Secret
	ConfigMaps map[string]*corev1.ConfigMap
}

// data returns the data of an object, and false if it does not exist.
func (o Objects) data(kind, name string) (map[string][]byte, bool) {
	if kind == "Secret" {
		s, ok := o.Secrets[name]
		if !ok {
			return nil, false
		}
		return s.Data, true
	}
	m, ok := o.ConfigMaps[name]
	if !ok {
		return nil, false
	}
	all := maps.Clone(m.BinaryData)
	if all == nil {
		all = map[string][]byte{}
	}
	for k, v := range m.Data {
		all[k] = []byte(v)
	}
	return all, true
}

// Facts are the input for environments and volumes.
type Facts struct {
	Host     Host
	PodIP    string
	Objects  Objects
	Services []corev1.Service // of the Pod's namespace, and default's kubernetes
}

// Env is the environment of a container: that of its image, of the existing Services,
// and its own; each overrides those before it.
func Env(pod *corev1.Pod, c Container, image Image, f Facts) ([]string, error) {
	e := &environment{values: map[string]string{}}
	e.set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	for _, each := range image.Env {
		name, value, _ := strings.Cut(each, "=")
		e.set(name, value)
	}
	e.set("HOSTNAME", Hostname(pod))
	services := serviceEnv(pod, f.Services)
	for _, each := range services {
		name, value, _ := strings.Cut(each, "=")
		e.set(name, value)
	}
	for i, from := range c.EnvFrom {
		if err := e.from(fmt.Sprintf("%s.envFrom[%d]", c.Field, i), from, f.Objects); err != nil {
			return nil, err
		}
	}
	for i, v := range c.Env {
		value, there := Expand(v.Value, e.lookup), true
		if v.ValueFrom != nil {
			var err error
			if value, there, err = valueFrom(pod, c, fmt.Sprintf("%s.env[%d].valueFrom", c.Field, i), v.ValueFrom, f); err != nil {
				return nil, err
			}
		}
		if there {
			e.set(v.Name, value)
		}
	}
	return e.list(), nil
}

// environment preserves the order in which names were set, so that the same facts yield
// the same list.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) lookup(name string) (string, bool) {
	value, ok := e.values[name]
	return value, ok
}

func (e *environment) list() []string {
	var all []string
	for _, name := range e.names {
		all = append(all, name+"="+e.values[name])
	}
	return all
}

// from sets all keys of an object that are valid names.
func (e *environment) from(field string, from corev1.EnvFromSource, objects Objects) error {
	var kind, name string
	var optional *bool
	switch {
	case from.SecretRef != nil:
		kind, name, optional, field = "Secret", from.SecretRef.Name, from.SecretRef.Optional, field+".secretRef"
	case from.ConfigMapRef != nil:
		kind, name, optional, field = "ConfigMap", from.ConfigMapRef.Name, from.ConfigMapRef.Optional, field+".configMapRef"
	default:
		return nil // the API server requires one of them
	}
	data, ok := objects.data(kind, name)
	if !ok {
		if optional != nil && *optional {
			return nil
		}
		return &MissingError{Field: field, Kind: kind, Name: name}
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if len(validation.IsEnvVarName(from.Prefix+key)) == 0 {
			e.set(from.Prefix+key, string(data[key]))
		}
	}
	return nil
}

// valueFrom is the value of a variable, and whether it has one.
func valueFrom(pod *corev1.Pod, c Container, field string, from *corev1.EnvVarSource, f Facts) (string, bool, error) {
	switch {
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		return keyOf(f.Objects, MissingError{field + ".secretKeyRef", "Secret", r.Name, r.Key}, r.Optional)
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		return keyOf(f.Objects, MissingError{field + ".configMapKeyRef", "ConfigMap", r.Name, r.Key}, r.Optional)
	case from.FieldRef != nil:
		value, err := Field(pod, from.FieldRef.FieldPath, f)
		if err != nil {
			return "", false, fmt.Errorf("%s.fieldRef.fieldPath: %w", field, err)
		}
		return value, true, nil
	case from.ResourceFieldRef != nil:
		value, err := resource(pod, c.Name, from.ResourceFieldRef, f.Host.Node)
		if err != nil {
			return "", false, fmt.Errorf("%s.resourceFieldRef: %w", field, err)
		}
		return value, true, nil
	}
	return "", false, fmt.Errorf("%s: a plane has values of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef: use one of them", field)
}

func keyOf(objects Objects, of MissingError, optional *bool) (string, bool, error) {
	data, there := objects.data(of.Kind, of.Name)
	if value, ok := data[of.Key]; ok {
		return string(value), true, nil
	}
	if optional != nil && *optional {
		return "", false, nil
	}
	if !there {
		of.Key = ""
	}
	return "", false, &of
}

// Field is the value of a field of a Pod that an environment or volume can refer to.
func Field(pod *corev1.Pod, path string, f Facts) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return pairs(pod.Labels), nil
	case "metadata.annotations":
		return pairs(pod.Annotations), nil
	case "spec.nodeName":
		return f.Host.Node.Name, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return f.Host.Address, nil
	case "status.podIP", "status.podIPs":
		return f.PodIP, nil
	}
	for prefix, of := range map[string]map[string]string{"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations} {
		if rest, ok := strings.CutPrefix(path, prefix+"['"); ok && strings.HasSuffix(rest, "']") {
			return of[strings.TrimSuffix(rest, "']")], nil
		}
	}
	return "", fmt.Errorf("%q is no field that a Pod may ask for: see kubectl explain pod.spec.containers.env.valueFrom.fieldRef", path)
}

func pairs(of map[string]string) string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, k+"="+strconv.Quote(of[k]))
	}
	return strings.Join(lines, "\n")
}

// resource is the request or limit of a container in the requested unit. A limit that is
// not set is what the Node can allocate.
func resource(pod *corev1.Pod, own string, r *corev1.ResourceFieldSelector, node *corev1.Node) (string, error) {
	name := cmp.Or(r.ContainerName, own)
	all := Containers(pod)
	i := slices.IndexFunc(all, func(c Container) bool { return c.Name == name })
	if i < 0 {
		return "", fmt.Errorf("the Pod has no container %q: correct containerName", name)
	}
	which, of, ok := strings.Cut(r.Resource, ".")
	if !ok || which != "limits" && which != "requests" {
		return "", fmt.Errorf("%q is no resource: use limits.cpu, limits.memory, requests.cpu or requests.memory", r.Resource)
	}
	list := all[i].Resources.Limits
	if which == "requests" {
		list = all[i].Resources.Requests
	}
	q, set := list[corev1.ResourceName(of)]
	if !set && which == "limits" {
		q = node.Status.Allocatable[corev1.ResourceName(of)]
	}
	divisor := r.Divisor
	if corev1.ResourceName(of) == corev1.ResourceCPU {
		unit := int64(1000)
		if !divisor.IsZero() {
			unit = divisor.MilliValue()
		}
		return strconv.FormatInt(ceil(q.MilliValue(), unit), 10), nil
	}
	unit := int64(1)
	if !divisor.IsZero() {
		unit = divisor.Value()
	}
	return strconv.FormatInt(ceil(q.Value(), unit), 10), nil
}

func ceil(n, by int64) int64 {
	if by <= 0 {
		by = 1
	}
	return (n + by - 1) / by
}

// serviceEnv is the classic set of variables for the Services that existed before the
// container.
func serviceEnv(pod *corev1.Pod, services []corev1.Service) (env []string) {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	sorted := slices.Clone(services)
	slices.SortFunc(sorted, func(a, b corev1.Service) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	for _, s := range sorted {
		api := s.Namespace == "default" && s.Name == "kubernetes"
		if ip := s.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 || !api && (!links || s.Namespace != pod.Namespace) {
			continue
		}
		env = append(env, linksTo(s)...)
	}
	return env
}

func linksTo(s corev1.Service) []string {
	name, ip := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_")), s.Spec.ClusterIP
	first := s.Spec.Ports[0]
	env := []string{
		name + "_SERVICE_HOST=" + ip,
		fmt.Sprintf("%s_SERVICE_PORT=%d", name, first.Port),
	}
	for _, p := range s.Spec.Ports {
		if p.Name != "" {
			env = append(env, fmt.Sprintf("%s_SERVICE_PORT_%s=%d", name, strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_")), p.Port))
		}
	}
	for i, p := range s.Spec.Ports {
		protocol := cmp.Or(string(p.Protocol), string(corev1.ProtocolTCP))
		url := fmt.Sprintf("%s://%s:%d", strings.ToLower(protocol), ip, p.Port)
		if i == 0 {
			env = append(env, name+"_PORT="+url)
		}
		prefix := fmt.Sprintf("%s_PORT_%d_%s", name, p.Port, protocol)
		env = append(env, prefix+"="+url, prefix+"_PROTO="+strings.ToLower(protocol), fmt.Sprintf("%s_PORT=%d", prefix, p.Port), prefix+"_ADDR="+ip)
	}
	return env
}
