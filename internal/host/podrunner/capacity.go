// SPDX-License-Identifier: Apache-2.0

package podrunner

import (
	"fmt"
	"os"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// capacity is the capacity of this host for Pods. It has no memory if the kernel
// does not report it.
func capacity() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: resource.MustParse(maxPods),
	}
	b, err := os.ReadFile("/proc/meminfo")
	var kilobytes int64
	if err == nil {
		if _, err = fmt.Sscanf(string(b), "MemTotal: %d kB", &kilobytes); err == nil {
			list[corev1.ResourceMemory] = *resource.NewQuantity(kilobytes<<10, resource.BinarySI)
		}
	}
	return list
}
