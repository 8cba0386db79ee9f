// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sources is how many pointers of a struct are set.
func sources(of any) (n int) {
	for _, f := range reflect.ValueOf(of).Fields() {
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			n++
		}
	}
	return n
}

// exactlyOne checks that one of the pointers of a struct is set.
func exactlyOne(at *field.Path, of any) field.ErrorList {
	n := sources(of)
	return append(when(n == 0, field.Required(at, "must specify one source")), when(n > 1, field.Forbidden(at, "may not specify more than one source"))...)
}

// container checks what containers and init containers have in common. The volumes are
// those of the Pod.
func container(c *corev1.Container, volumes map[string]bool, at *field.Path) field.ErrorList {
	mounts := at.Child("volumeMounts")
	return slices.Concat(
		named(at.Child("name"), c.Name, utilvalidation.IsDNS1123Label),
		when(c.Image == "", field.Required(at.Child("image"), "")),
		oneOf(at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever),
		oneOf(at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError),
		each(at.Child("ports"), c.Ports, containerPort),
		unique(at.Child("ports"), c.Ports, func(p *corev1.ContainerPort) string { return p.Name }, "name"),
		each(at.Child("env"), c.Env, variable),
		each(at.Child("envFrom"), c.EnvFrom, variables),
		each(mounts, c.VolumeMounts, func(at *field.Path, m *corev1.VolumeMount) field.ErrorList { return mount(at, m, volumes) }),
		unique(mounts, c.VolumeMounts, func(m *corev1.VolumeMount) string { return m.MountPath }, "mountPath"),
		resources(&c.Resources, at.Child("resources")),
		optionally(c.SecurityContext, func(s corev1.SecurityContext) field.ErrorList {
			return securityContext(at.Child("securityContext"), &s)
		}),
		optionally(c.LivenessProbe, func(p corev1.Probe) field.ErrorList { return probe(at.Child("livenessProbe"), &p, true) }),
		optionally(c.ReadinessProbe, func(p corev1.Probe) field.ErrorList { return probe(at.Child("readinessProbe"), &p, false) }),
		optionally(c.StartupProbe, func(p corev1.Probe) field.ErrorList { return probe(at.Child("startupProbe"), &p, true) }),
		optionally(c.Lifecycle, func(l corev1.Lifecycle) field.ErrorList {
			at := at.Child("lifecycle")
			return append(optionally(l.PostStart, func(h corev1.LifecycleHandler) field.ErrorList { return hook(at.Child("postStart"), &h) }),
				optionally(l.PreStop, func(h corev1.LifecycleHandler) field.ErrorList { return hook(at.Child("preStop"), &h) })...)
		}),
	)
}

// initContainer checks what init containers may have. One that restarts runs next to the
// containers.
func initContainer(c *corev1.Container, volumes map[string]bool, at *field.Path) field.ErrorList {
	errs := append(container(c, volumes, at), optionally(c.RestartPolicy, func(p corev1.ContainerRestartPolicy) field.ErrorList {
		return oneOf(at.Child("restartPolicy"), p, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	})...)
	if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
		return errs
	}
	probed := c.Lifecycle != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil
	return append(errs, when(probed, field.Forbidden(at, "probes and lifecycle hooks may not be set for init containers without restartPolicy=Always"))...)
}

func containerPort(at *field.Path, p *corev1.ContainerPort) field.ErrorList {
	return slices.Concat(
		when(p.Name != "", formed(at.Child("name"), p.Name, utilvalidation.IsValidPortName)...),
		between(at.Child("containerPort"), p.ContainerPort, 1, 65535),
		between(at.Child("hostPort"), p.HostPort, 0, 65535),
		protocol(at.Child("protocol"), p.Protocol),
	)
}

// hostPorts checks that no two containers have the same port of the host.
func hostPorts(at *field.Path, list []corev1.Container) field.ErrorList {
	type key struct {
		protocol corev1.Protocol
		ip       string
		port     int32
	}
	var ports []corev1.ContainerPort
	for _, c := range list {
		ports = append(ports, c.Ports...)
	}
	return unique(at, ports, func(p *corev1.ContainerPort) key {
		if p.HostPort == 0 {
			return key{}
		}
		return key{p.Protocol, p.HostIP, p.HostPort}
	})
}

func variable(at *field.Path, v *corev1.EnvVar) field.ErrorList {
	errs := named(at.Child("name"), v.Name, utilvalidation.IsRelaxedEnvVarName)
	s := v.ValueFrom
	if s == nil {
		return errs
	}
	at = at.Child("valueFrom")
	errs = slices.Concat(errs, exactlyOne(at, *s), when(v.Value != "", field.Invalid(at, "", "may not be specified when `value` is not empty")))
	switch {
	case s.FieldRef != nil:
		errs = append(errs, fieldReference(at.Child("fieldRef"), s.FieldRef, "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")...)
	case s.ResourceFieldRef != nil:
		errs = append(errs, resourceReference(at.Child("resourceFieldRef"), s.ResourceFieldRef, false)...)
	case s.ConfigMapKeyRef != nil:
		errs = append(errs, keyReference(at.Child("configMapKeyRef"), s.ConfigMapKeyRef.Name, s.ConfigMapKeyRef.Key)...)
	case s.SecretKeyRef != nil:
		errs = append(errs, keyReference(at.Child("secretKeyRef"), s.SecretKeyRef.Name, s.SecretKeyRef.Key)...)
	}
	return errs
}

func keyReference(at *field.Path, name, key string) field.ErrorList {
	return append(named(at.Child("name"), name, objectName), named(at.Child("key"), key, utilvalidation.IsConfigMapKey)...)
}

// fieldReference checks a reference to a field of the Pod: its metadata, or one of more.
func fieldReference(at *field.Path, r *corev1.ObjectFieldSelector, more ...string) field.ErrorList {
	at = at.Child("fieldPath")
	if r.FieldPath == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if name, key, ok := strings.Cut(r.FieldPath, "['"); ok {
		form := utilvalidation.IsQualifiedName
		key, closed := strings.CutSuffix(key, "']")
		if !closed || name != "metadata.labels" && name != "metadata.annotations" {
			return field.ErrorList{field.Invalid(at, r.FieldPath, "unsupported fieldPath")}
		}
		return formed(at, strings.ToLower(key), form)
	}
	return oneOf(at, r.FieldPath, append(more, "metadata.name", "metadata.namespace", "metadata.uid")...)
}

func resourceReference(at *field.Path, r *corev1.ResourceFieldSelector, named bool) field.ErrorList {
	of, name, _ := strings.Cut(r.Resource, ".")
	known := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
	return slices.Concat(
		when(named && r.ContainerName == "", field.Required(at.Child("containerName"), "")),
		when(!known || of != "limits" && of != "requests", field.NotSupported(at.Child("resource"), r.Resource, []string{"limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})),
	)
}

func variables(at *field.Path, v *corev1.EnvFromSource) field.ErrorList {
	errs := when(v.Prefix != "", formed(at.Child("prefix"), v.Prefix, utilvalidation.IsRelaxedEnvVarName)...)
	if v.ConfigMapRef != nil {
		errs = append(errs, named(at.Child("configMapRef", "name"), v.ConfigMapRef.Name, objectName)...)
	}
	if v.SecretRef != nil {
		errs = append(errs, named(at.Child("secretRef", "name"), v.SecretRef.Name, objectName)...)
	}
	return append(errs, exactlyOne(at, *v)...)
}

func mount(at *field.Path, m *corev1.VolumeMount, volumes map[string]bool) field.ErrorList {
	return slices.Concat(
		when(m.Name == "", field.Required(at.Child("name"), "")),
		when(!volumes[m.Name], field.NotFound(at.Child("name"), m.Name)),
		when(m.MountPath == "", field.Required(at.Child("mountPath"), "")),
		when(m.SubPath != "", below(at.Child("subPath"), m.SubPath)...),
		when(m.SubPathExpr != "", below(at.Child("subPathExpr"), m.SubPathExpr)...),
		when(m.SubPath != "" && m.SubPathExpr != "", field.Invalid(at.Child("subPathExpr"), m.SubPathExpr, "subPathExpr and subPath are mutually exclusive")),
	)
}

// below checks a relative path that does not leave its folder.
func below(at *field.Path, name string) field.ErrorList {
	return append(when(path.IsAbs(name), field.Invalid(at, name, "must be a relative path")), noSteps(at, name)...)
}

func noSteps(at *field.Path, name string) field.ErrorList {
	return when(slices.Contains(strings.Split(name, "/"), ".."), field.Invalid(at, name, "must not contain '..'"))
}

func resources(r *corev1.ResourceRequirements, at *field.Path) (errs field.ErrorList) {
	for child, list := range map[string]corev1.ResourceList{"requests": r.Requests, "limits": r.Limits} {
		for name, q := range list {
			at := at.Child(child).Key(string(name))
			errs = append(errs, containerResource(at, name)...)
			errs = append(errs, when(q.Sign() < 0, field.Invalid(at, q.String(), "must be greater than or equal to 0"))...)
			errs = append(errs, when(isCounted(name) && !isWhole(q), field.Invalid(at, q.String(), "must be an integer"))...)
		}
	}
	for name, request := range r.Requests {
		limit, ok := r.Limits[name]
		whole := strings.Contains(string(name), "/") || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
		at := at.Child("requests").Key(string(name))
		errs = append(errs, when(ok && request.Cmp(limit) > 0, field.Invalid(at, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))...)
		errs = append(errs, when(whole && (!ok || request.Cmp(limit) != 0), field.Invalid(at, request.String(), "must be equal to the limit of a resource that cannot be overcommitted"))...)
	}
	return errs
}

func probe(at *field.Path, p *corev1.Probe, once bool) field.ErrorList {
	return slices.Concat(
		exactlyOne(at, p.ProbeHandler),
		handler(at, p.Exec, p.HTTPGet, p.TCPSocket),
		optionally(p.GRPC, func(g corev1.GRPCAction) field.ErrorList { return between(at.Child("grpc", "port"), g.Port, 1, 65535) }),
		numbers(at, map[string]*int32{
			"initialDelaySeconds": &p.InitialDelaySeconds, "timeoutSeconds": &p.TimeoutSeconds, "periodSeconds": &p.PeriodSeconds, "successThreshold": &p.SuccessThreshold, "failureThreshold": &p.FailureThreshold,
		}),
		optionally(p.TerminationGracePeriodSeconds, func(n int64) field.ErrorList {
			return when(n <= 0 || !once, field.Invalid(at.Child("terminationGracePeriodSeconds"), n, "must be greater than 0, and must not be set for readinessProbes"))
		}),
		when(once && p.SuccessThreshold != 1, field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1")),
	)
}

func hook(at *field.Path, h *corev1.LifecycleHandler) field.ErrorList {
	return append(exactlyOne(at, *h), handler(at, h.Exec, h.HTTPGet, h.TCPSocket)...)
}

func handler(at *field.Path, exec *corev1.ExecAction, get *corev1.HTTPGetAction, socket *corev1.TCPSocketAction) (errs field.ErrorList) {
	if exec != nil {
		errs = append(errs, when(len(exec.Command) == 0, field.Required(at.Child("exec", "command"), ""))...)
	}
	if socket != nil {
		errs = append(errs, port(at.Child("tcpSocket", "port"), socket.Port)...)
	}
	if get == nil {
		return errs
	}
	at = at.Child("httpGet")
	return slices.Concat(errs,
		when(get.Path == "", field.Required(at.Child("path"), "")),
		port(at.Child("port"), get.Port),
		oneOf(at.Child("scheme"), get.Scheme, corev1.URISchemeHTTP, corev1.URISchemeHTTPS),
		each(at.Child("httpHeaders"), get.HTTPHeaders, func(at *field.Path, h *corev1.HTTPHeader) field.ErrorList {
			return formed(at.Child("name"), h.Name, utilvalidation.IsHTTPHeaderName)
		}),
	)
}

func securityContext(at *field.Path, s *corev1.SecurityContext) field.ErrorList {
	escalates := s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation
	strong := s.Privileged != nil && *s.Privileged || s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN")
	return slices.Concat(
		ids(at, map[string]*int64{"runAsUser": s.RunAsUser, "runAsGroup": s.RunAsGroup}),
		optionally(s.ProcMount, func(p corev1.ProcMountType) field.ErrorList {
			return oneOf(at.Child("procMount"), p, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		}),
		seccomp(at, s.SeccompProfile),
		when(!escalates && strong, field.Invalid(at, "", "cannot set `allowPrivilegeEscalation` to false with `privileged` or CAP_SYS_ADMIN")),
	)
}

// ids checks IDs of users and groups.
func ids(at *field.Path, all map[string]*int64) (errs field.ErrorList) {
	for name, n := range all {
		errs = append(errs, optionally(n, func(n int64) field.ErrorList { return between(at.Child(name), n, 0, 1<<31-1) })...)
	}
	return errs
}

func seccomp(at *field.Path, p *corev1.SeccompProfile) field.ErrorList {
	if p == nil {
		return nil
	}
	at = at.Child("seccompProfile")
	local := p.Type == corev1.SeccompProfileTypeLocalhost
	return slices.Concat(
		oneOf(at.Child("type"), p.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined),
		when(local != (p.LocalhostProfile != nil), field.Invalid(at.Child("localhostProfile"), p.LocalhostProfile, "must be set when seccomp type is Localhost, and only then")),
		optionally(p.LocalhostProfile, func(name string) field.ErrorList { return below(at.Child("localhostProfile"), name) }),
	)
}
