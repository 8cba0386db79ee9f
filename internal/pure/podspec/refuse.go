// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// maxID is the first user ID that a sandbox does not have.
const maxID = 1 << 16

// Check lists the fields of a Pod that a sandbox does not support. A Pod without any can
// be run.
func Check(pod *corev1.Pod) []Problem {
	c := &checker{}
	c.pod(pod)
	c.podSecurity(pod.Spec.SecurityContext)
	for i, v := range pod.Spec.Volumes {
		c.volume(fmt.Sprintf("spec.volumes[%d]", i), v)
	}
	for _, container := range Containers(pod) {
		c.container(container)
	}
	return c.found
}

type checker struct{ found []Problem }

func (c *checker) refuse(on bool, field, detail string, args ...any) {
	if on {
		c.found = append(c.found, Problem{field, fmt.Sprintf(detail, args...)})
	}
}

func (c *checker) pod(pod *corev1.Pod) {
	s := &pod.Spec
	for _, owner := range pod.OwnerReferences {
		c.refuse(owner.Kind == "DaemonSet", "metadata.ownerReferences", "a plane has no nodes for a DaemonSet: use a Deployment")
	}
	const own = "a Pod of a plane has namespaces of its own: set it to false"
	c.refuse(s.HostNetwork, "spec.hostNetwork", own)
	c.refuse(s.HostPID, "spec.hostPID", own)
	c.refuse(s.HostIPC, "spec.hostIPC", own)
	c.refuse(s.ShareProcessNamespace != nil && *s.ShareProcessNamespace, "spec.shareProcessNamespace", "each container of a plane sees its own processes: set it to false")
	c.refuse(s.RuntimeClassName != nil, "spec.runtimeClassName", "a plane runs Pods in one way: leave it out")
	c.refuse(len(pod.Spec.EphemeralContainers) > 0, "spec.ephemeralContainers", "a plane has no ephemeral containers: use kubectl exec")
	c.refuse(len(s.ResourceClaims) > 0, "spec.resourceClaims", "a plane has no devices to claim: leave it out")
	c.refuse(s.OS != nil && s.OS.Name != corev1.Linux, "spec.os.name", "a plane runs linux only")
	c.refuse(s.Resources != nil, "spec.resources", "a plane limits containers each by their own: set the resources of the containers")
	c.refuse(s.HostnameOverride != nil, "spec.hostnameOverride", "the hostname is that of the Pod: use spec.hostname")
	if s.SetHostnameAsFQDN != nil {
		c.refuse(*s.SetHostnameAsFQDN, "spec.setHostnameAsFQDN", "the hostname is that of the Pod: set it to false")
	}
	if s.DNSPolicy == corev1.DNSClusterFirstWithHostNet {
		c.refuse(true, "spec.dnsPolicy", "there is no host network: use ClusterFirst")
	}
}

func (c *checker) podSecurity(s *corev1.PodSecurityContext) {
	const at = "spec.securityContext"
	if s == nil {
		return
	}
	c.refuse(s.SELinuxOptions != nil, at+".seLinuxOptions", "a plane sets no SELinux label: leave it out")
	c.refuse(s.WindowsOptions != nil, at+".windowsOptions", "a plane runs linux only: leave it out")
	c.refuse(len(s.Sysctls) > 0, at+".sysctls", "a plane sets no sysctl: leave it out")
	c.appArmor(at+".appArmorProfile", s.AppArmorProfile)
	c.seccomp(at+".seccompProfile", s.SeccompProfile)
	c.id(at+".runAsUser", s.RunAsUser)
	c.id(at+".runAsGroup", s.RunAsGroup)
	c.id(at+".fsGroup", s.FSGroup)
	for i, group := range s.SupplementalGroups {
		c.id(fmt.Sprintf("%s.supplementalGroups[%d]", at, i), &group)
	}
}

func (c *checker) id(field string, id *int64) {
	if id != nil {
		c.refuse(*id < 0 || *id >= maxID, field, "%d is not below %d, which is how many IDs a Pod has", *id, maxID)
	}
}

func (c *checker) appArmor(field string, p *corev1.AppArmorProfile) {
	c.refuse(p != nil && p.Type == corev1.AppArmorProfileTypeLocalhost, field, "a plane loads no AppArmor profile by name: use type RuntimeDefault")
}

func (c *checker) seccomp(field string, p *corev1.SeccompProfile) {
	c.refuse(p != nil && p.Type == corev1.SeccompProfileTypeLocalhost, field, "a plane loads no seccomp profile by name: use type RuntimeDefault")
}

func (c *checker) container(t Container) {
	for i, p := range t.Ports {
		at := fmt.Sprintf("%s.ports[%d]", t.Field, i)
		c.refuse(p.HostPort != 0, at+".hostPort", "a Pod of a plane has no port of the host: use a Service")
		c.refuse(p.Protocol == corev1.ProtocolSCTP, at+".protocol", "only TCP reaches a Pod of a plane")
	}
	c.refuse(len(t.RestartPolicyRules) > 0, t.Field+".restartPolicyRules", "a plane starts containers again by restartPolicy alone: leave it out")
	for i, e := range t.Env {
		c.refuse(e.ValueFrom != nil && e.ValueFrom.FileKeyRef != nil, fmt.Sprintf("%s.env[%d].valueFrom.fileKeyRef", t.Field, i), "a plane has values of fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef: use one of them")
	}
	c.refuse(len(t.VolumeDevices) > 0, t.Field+".volumeDevices", "a plane has no block devices: leave it out")
	for i, m := range t.VolumeMounts {
		at := fmt.Sprintf("%s.volumeMounts[%d]", t.Field, i)
		c.refuse(m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone, at+".mountPropagation", "mounts do not leave a Pod of a plane: use None")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Resources.Limits)) {
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		default:
			c.refuse(true, fmt.Sprintf("%s.resources.limits[%s]", t.Field, name), "a plane has cpu and memory only: leave it out")
		}
	}
	c.refuse(len(t.Resources.Claims) > 0, t.Field+".resources.claims", "a plane has no devices to claim: leave it out")
	c.refuse(t.Init && !t.Sidecar && (t.LivenessProbe != nil || t.ReadinessProbe != nil || t.StartupProbe != nil), t.Field, "an init container that ends has no probes")
	for _, p := range []struct {
		name string
		*corev1.Probe
	}{{"startupProbe", t.StartupProbe}, {"livenessProbe", t.LivenessProbe}, {"readinessProbe", t.ReadinessProbe}} {
		if p.Probe == nil {
			continue
		}
		if p.HTTPGet != nil {
			c.probedHost(fmt.Sprintf("%s.%s.httpGet", t.Field, p.name), p.HTTPGet.Host)
			c.port(fmt.Sprintf("%s.%s.httpGet.port", t.Field, p.name), t, p.HTTPGet.Port)
		}
		if p.TCPSocket != nil {
			c.probedHost(fmt.Sprintf("%s.%s.tcpSocket", t.Field, p.name), p.TCPSocket.Host)
			c.port(fmt.Sprintf("%s.%s.tcpSocket.port", t.Field, p.name), t, p.TCPSocket.Port)
		}
	}
	if l := t.Lifecycle; l != nil {
		c.hook(t.Field+".lifecycle.postStart", t, l.PostStart)
		c.hook(t.Field+".lifecycle.preStop", t, l.PreStop)
	}
	c.security(t.Field+".securityContext", t.SecurityContext)
}

func (c *checker) hook(at string, t Container, h *corev1.LifecycleHandler) {
	if h == nil {
		return
	}
	c.refuse(h.TCPSocket != nil, at+".tcpSocket", "a hook does not connect to ports: use exec, httpGet or sleep")
	if h.HTTPGet != nil {
		c.refuse(h.HTTPGet.Host != "", at+".httpGet.host", "a hook asks the Pod itself: leave it out")
		if h.HTTPGet.Port != (intstr.IntOrString{}) { // without one it is 80
			c.port(at+".httpGet.port", t, h.HTTPGet.Port)
		}
	}
}

func (c *checker) probedHost(field, host string) {
	c.refuse(host != "", field+".host", "a probe asks the Pod itself: leave it out")
}

func (c *checker) port(field string, t Container, port intstr.IntOrString) {
	_, err := Port(t.Container, port)
	c.refuse(err != nil, field, "%v", err)
}

// Port is the number of a port that a probe or a hook of a container names.
func Port(t *corev1.Container, port intstr.IntOrString) (int, error) {
	if port.Type == intstr.Int {
		if port.IntVal < 1 || port.IntVal > 65535 {
			return 0, fmt.Errorf("%d is no port: use 1 to 65535", port.IntVal)
		}
		return int(port.IntVal), nil
	}
	for _, p := range t.Ports {
		if p.Name == port.StrVal {
			return int(p.ContainerPort), nil
		}
	}
	return 0, fmt.Errorf("container %s has no port named %q: name one of its ports so", t.Name, port.StrVal)
}

func (c *checker) security(at string, s *corev1.SecurityContext) {
	if s == nil {
		return
	}
	c.refuse(s.Privileged != nil && *s.Privileged, at+".privileged", "a container of a plane has no rights over the host: set it to false")
	c.refuse(s.Capabilities != nil && len(s.Capabilities.Add) > 0, at+".capabilities.add", "a container of a plane has no capabilities: leave it out")
	c.refuse(s.SELinuxOptions != nil, at+".seLinuxOptions", "a plane sets no SELinux label: leave it out")
	c.refuse(s.WindowsOptions != nil, at+".windowsOptions", "a plane runs linux only: leave it out")
	c.refuse(s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount, at+".procMount", "a container of a plane has a masked /proc: leave it out")
	c.appArmor(at+".appArmorProfile", s.AppArmorProfile)
	c.seccomp(at+".seccompProfile", s.SeccompProfile)
	c.id(at+".runAsUser", s.RunAsUser)
	c.id(at+".runAsGroup", s.RunAsGroup)
}

func (c *checker) volume(at string, v corev1.Volume) {
	const claims = "a plane has no storage to claim: use emptyDir, or keep what must last in objects"
	s := v.VolumeSource
	switch {
	case s.EmptyDir != nil:
		m := s.EmptyDir.Medium
		c.refuse(m != corev1.StorageMediumDefault && m != corev1.StorageMediumMemory, at+".emptyDir.medium", "%q is not known: use Memory, or leave it out", m)
	case s.Secret != nil, s.ConfigMap != nil, s.DownwardAPI != nil:
	case s.Projected != nil:
		for i, p := range s.Projected.Sources {
			known := p.Secret != nil || p.ConfigMap != nil || p.DownwardAPI != nil || p.ServiceAccountToken != nil
			c.refuse(!known, fmt.Sprintf("%s.projected.sources[%d]", at, i), "only secret, configMap, downwardAPI and serviceAccountToken are projected: use one of them")
		}
	case s.HostPath != nil:
		c.refuse(true, at+".hostPath", "a Pod of a plane does not see the host's files: use emptyDir, a Secret or a ConfigMap")
	case s.PersistentVolumeClaim != nil:
		c.refuse(true, at+".persistentVolumeClaim", claims)
	case s.Ephemeral != nil:
		c.refuse(true, at+".ephemeral", claims)
	default:
		c.refuse(true, at, "a plane has volumes of emptyDir, secret, configMap, downwardAPI and projected: use one of them")
	}
}
