// SPDX-License-Identifier: Apache-2.0

package draining

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// csiPrefix starts the unique names of CSI volumes: prefix, driver, ^, handle.
const csiPrefix = "kubernetes.io/csi/"

// Volumes is the input of the wait for volumes.
type Volumes struct {
	Node        *corev1.Node
	Attachments []storagev1.VolumeAttachment // of all Nodes
	// PersistentVolumes by name.
	PersistentVolumes map[string]corev1.PersistentVolume
	// Results of the drain: volumes of Pods that it skips stay attached.
	Results []Result
}

// Attached lists the volumes that are still attached to the Node and must be detached
// before the infrastructure machine can be deleted, each by its claim if it has one.
func (v Volumes) Attached() []string {
	left := map[string]bool{} // names of attached volumes, PersistentVolumes if found
	byHandle := map[string]string{}
	for name, pv := range v.PersistentVolumes {
		if csi := pv.Spec.CSI; csi != nil {
			byHandle[csiPrefix+csi.Driver+"^"+csi.VolumeHandle] = name
		}
	}
	for _, a := range v.Node.Status.VolumesAttached {
		if pv, ok := byHandle[string(a.Name)]; ok {
			left[pv] = true
		} else {
			left[string(a.Name)] = true
		}
	}
	for _, a := range v.Attachments {
		if a.Spec.NodeName != v.Node.Name || !a.Status.Attached || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		left[*a.Spec.Source.PersistentVolumeName] = true
	}
	stays := v.claimsThatStay()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(left)) {
		claim := v.PersistentVolumes[name].Spec.ClaimRef
		switch {
		case claim == nil:
			out = append(out, "volume "+strings.TrimPrefix(name, csiPrefix))
		case !stays[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]:
			out = append(out, "PersistentVolumeClaim "+claim.Namespace+"/"+claim.Name)
		}
	}
	return out
}

func (v Volumes) claimsThatStay() map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for _, result := range v.Results {
		if result.Behavior != clusterv1.MachineDrainRuleDrainBehaviorSkip {
			continue
		}
		for _, volume := range result.Pod.Spec.Volumes {
			if claim := volume.PersistentVolumeClaim; claim != nil {
				out[types.NamespacedName{Namespace: result.Pod.Namespace, Name: claim.ClaimName}] = true
			}
			if volume.Ephemeral != nil {
				out[types.NamespacedName{Namespace: result.Pod.Namespace, Name: result.Pod.Name + "-" + volume.Name}] = true
			}
		}
	}
	return out
}
