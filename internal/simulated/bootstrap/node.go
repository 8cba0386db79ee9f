// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// Labels and taints of Nodes.
const (
	controlPlaneLabel = "node-role.kubernetes.io/control-plane"
	excludeLabel      = "node.kubernetes.io/exclude-from-external-load-balancers"
)

// Host is the machine itself, as the kubelet on it sees it.
type Host struct {
	Name       string
	UID        string
	Address    string // its IP
	ProviderID string // used unless the kubelet has another in its configuration
	Version    string // of the kubelet
	Zone       string // its failure domain; may be empty
	Now        time.Time
}

// Node is the Node the kubelet registers and kubeadm marks.
func (r *Run) Node(h Host) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.NodeName(),
			Labels: map[string]string{
				corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: r.NodeName(),
				"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
			},
			Annotations: map[string]string{
				"kubeadm.alpha.kubernetes.io/cri-socket":                 r.criSocket(),
				"node.alpha.kubernetes.io/ttl":                           "0",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
			},
		},
		Spec: corev1.NodeSpec{ProviderID: h.ProviderID, Taints: r.taints()},
	}
	if id := r.kubeletArg("provider-id"); id != "" {
		n.Spec.ProviderID = id
	}
	maps.Copy(n.Labels, pairs(r.kubeletArg("node-labels")))
	if h.Zone != "" {
		n.Labels[corev1.LabelTopologyZone] = h.Zone
	}
	if r.IsControlPlane() {
		n.Labels[controlPlaneLabel] = ""
		n.Labels[excludeLabel] = ""
	}
	n.Status = h.status(n.Name)
	return n
}

// OperatingSystem and Architecture are those of every simulated machine.
const (
	OperatingSystem = "linux"
	Architecture    = "amd64"
)

// Capacity is what every simulated machine has to offer.
func Capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceMemory:           resource.MustParse("8Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

func (h Host) status(node string) corev1.NodeStatus {
	capacity := Capacity()
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(h.UID)))
	s := corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity.DeepCopy(),
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: h.Address},
			{Type: corev1.NodeHostName, Address: node},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: id[:32], SystemUUID: h.UID, BootID: id[32:],
			KernelVersion: "6.12.0-simulated", OSImage: "Capstan simulated machine", ContainerRuntimeVersion: "containerd://2.2.0",
			KubeletVersion: h.Version, OperatingSystem: OperatingSystem, Architecture: Architecture,
		},
	}
	for _, c := range sufficient {
		s.Conditions = append(s.Conditions, condition(c.Type, c.Status, c.Reason, c.Message, h.Now))
	}
	s.Conditions = append(s.Conditions, condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status", h.Now))
	return s
}

// sufficient are the conditions that a kubelet reports for sufficient resources.
var sufficient = []corev1.NodeCondition{
	{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
	{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
	{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
}

func condition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) corev1.NodeCondition {
	at := metav1.NewTime(now)
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: at, LastTransitionTime: at}
}

// SetReady sets the Node's conditions to those while its kubelet is healthy: status
// True; while it runs and is not healthy: False; or after it has stopped: Unknown.
// The taints are those that the node controller sets. It reports whether that
// changed anything.
func SetReady(n *corev1.Node, status corev1.ConditionStatus, now time.Time) bool {
	reason, message := "KubeletReady", "kubelet is posting ready status"
	switch status {
	case corev1.ConditionFalse:
		reason, message = "KubeletNotReady", "container runtime network not ready: a fault of the simulation is set"
	case corev1.ConditionUnknown:
		reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	changed := true
	var conditions []corev1.NodeCondition
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type == corev1.NodeReady && c.Status == status:
			changed = false
		case c.Type == corev1.NodeReady:
			c = condition(corev1.NodeReady, status, reason, message, now)
		case status == corev1.ConditionUnknown:
			c.Status, c.Reason, c.Message, c.LastTransitionTime = status, reason, message, metav1.NewTime(now)
		case c.Status == corev1.ConditionUnknown: // its kubelet reports again
			if i := slices.IndexFunc(sufficient, func(s corev1.NodeCondition) bool { return s.Type == c.Type }); i >= 0 {
				s := sufficient[i]
				c = condition(s.Type, s.Status, s.Reason, s.Message, now)
			}
		}
		conditions = append(conditions, c)
	}
	if !changed {
		return false
	}
	if !slices.ContainsFunc(conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }) { // another client removed it
		conditions = append(conditions, condition(corev1.NodeReady, status, reason, message, now))
	}
	n.Status.Conditions = conditions
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	})
	if key := map[corev1.ConditionStatus]string{corev1.ConditionFalse: corev1.TaintNodeNotReady, corev1.ConditionUnknown: corev1.TaintNodeUnreachable}[status]; key != "" {
		at := metav1.NewTime(now)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &at}, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute, TimeAdded: &at})
	}
	return true
}

// taints are those of the configuration, or kubeadm's default.
func (r *Run) taints() []corev1.Taint {
	var out []corev1.Taint
	if t := r.registration().Taints; t != nil {
		out = append(out, *t...)
	} else if r.IsControlPlane() {
		out = append(out, corev1.Taint{Key: controlPlaneLabel, Effect: corev1.TaintEffectNoSchedule})
	}
	for text := range strings.SplitSeq(r.kubeletArg("register-with-taints"), ",") {
		i := strings.LastIndex(text, ":")
		if i < 0 {
			continue
		}
		key, value, _ := strings.Cut(text[:i], "=")
		out = append(out, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(text[i+1:])})
	}
	return out
}

func (r *Run) criSocket() string {
	if s := r.registration().CRISocket; s != "" {
		return s
	}
	return "unix:///var/run/containerd/containerd.sock"
}

// pairs reads key=value,key=value.
func pairs(text string) map[string]string {
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if key, value, _ := strings.Cut(strings.TrimSpace(part), "="); key != "" {
			out[key] = value
		}
	}
	return out
}

// Components are the static pods of a control plane node, etcd first; without etcd
// where that is external.
func Components(externalEtcd bool) []string {
	all := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	if externalEtcd {
		return all[1:]
	}
	return all
}

// StaticPod is the mirror Pod of a component, as the kubelet of that Node
// shows it while it runs and is ready.
func StaticPod(component string, n *corev1.Node, cluster *kubeadm.Documents, version string, now time.Time) *corev1.Pod {
	address := ""
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(component+n.Name+string(n.UID))))[:32]
	started := metav1.NewTime(now)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + n.Name,
			Labels: map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{
				"kubernetes.io/config.hash": hash, "kubernetes.io/config.mirror": hash,
				"kubernetes.io/config.seen": now.UTC().Format(time.RFC3339Nano), "kubernetes.io/config.source": "file",
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: n.Name, HostNetwork: true, PriorityClassName: "system-node-critical", Priority: new(int32(2000001000)),
			RestartPolicy: corev1.RestartPolicyAlways, EnableServiceLinks: new(true),
			Containers:  []corev1.Container{{Name: component, Image: image(component, cluster, version), ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{component}}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
		},
		Status: corev1.PodStatus{HostIP: address, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &started, QOSClass: corev1.PodQOSBurstable},
	}
	switch component {
	case "etcd":
		p.Annotations["kubeadm.kubernetes.io/etcd.advertise-client-urls"] = ClientURL(address)
	case "kube-apiserver":
		p.Annotations["kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"] = address + ":6443"
	}
	SetRunning(p, true, now)
	return p
}

// SetRunning sets the status of the Pod to running and ready, or to waiting after
// its container ended, and reports whether that changed anything.
func SetRunning(p *corev1.Pod, running bool, now time.Time) bool {
	was := p.Status.ContainerStatuses
	if len(was) == 1 && was[0].Ready == running || len(p.Spec.Containers) == 0 {
		return false
	}
	status, at := corev1.ConditionTrue, metav1.NewTime(now)
	container := corev1.ContainerStatus{
		Name: p.Spec.Containers[0].Name, Image: p.Spec.Containers[0].Image, Ready: running, Started: &running,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
	}
	if len(was) == 1 {
		container.RestartCount = was[0].RestartCount + 1
	}
	if !running {
		status = corev1.ConditionFalse
		container.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "a fault of the simulation is set"}}
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{container}
	p.Status.Conditions = nil
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at}
		if kind == corev1.PodReady || kind == corev1.ContainersReady {
			c.Status = status
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
	return true
}

// ClientURL is where kubeadm has the etcd of a machine listen for clients.
func ClientURL(address string) string { return "https://" + address + ":2379" }

// PeerURL is where kubeadm has the etcd of a machine listen for other members.
func PeerURL(address string) string { return "https://" + address + ":2380" }
