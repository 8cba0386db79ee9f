// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/draining"
)

// waitForVolumes waits until the volumes of drained Pods have let go of the
// Node: a volume that is torn away may not be attached elsewhere for minutes.
func (r *Reconciler) waitForVolumes(ctx context.Context, s *state) (phase.Next, error) {
	if why := skipsVolumes(s); why != "" {
		ctrl.LoggerFrom(ctx).V(2).Info("Skipping the wait for volumes", "reason", why)
		return phase.Continue(), nil
	}
	since := note(&began(s.machine).WaitForNodeVolumeDetachStartTime, s.now)
	left, bounded := remaining(since, s.machine.Spec.Deletion.NodeVolumeDetachTimeoutSeconds, s.now)
	if bounded && left <= 0 {
		ctrl.LoggerFrom(ctx).V(2).Info("Skipping the wait for volumes", "reason", "its time is over")
		return phase.Continue(), nil
	}
	attached, err := r.attached(ctx, s)
	if err != nil {
		return phase.Continue(), fmt.Errorf("volumes of Node %s: %w", s.node.Name, err)
	}
	if len(attached) == 0 {
		return phase.Continue(), nil
	}
	s.stage.at(clusterv1.MachineDeletingWaitingForVolumeDetachReason, "Waiting for Node volumes to be detached (started at %s):\n* %s",
		since.UTC().Format(time.RFC3339), strings.Join(attached, "\n* "))
	next := lookAfter(since, s.now)
	if bounded {
		next = min(next, left)
	}
	return phase.Wait(next), nil
}

func skipsVolumes(s *state) string {
	_, excluded := s.machine.Annotations[clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation]
	switch {
	case excluded:
		return "the Machine has the annotation " + clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation
	case s.node == nil:
		return "the Node is not known"
	case unreachable(s.node):
		return "the Node is unreachable, nobody would detach them"
	default:
		return pastDraining(s)
	}
}

// attached lists the volumes to wait for. What is needed to tell them apart is
// read only when there are any.
func (r *Reconciler) attached(ctx context.Context, s *state) ([]string, error) {
	v := draining.Volumes{Node: s.node, PersistentVolumes: map[string]corev1.PersistentVolume{}}
	var attachments storagev1.VolumeAttachmentList
	if err := s.stage.workload.List(ctx, &attachments); err != nil {
		return nil, fmt.Errorf("list VolumeAttachments: %w", err)
	}
	v.Attachments = attachments.Items
	if len(v.Attached()) == 0 {
		return nil, nil
	}
	var volumes corev1.PersistentVolumeList
	if err := s.stage.workload.List(ctx, &volumes); err != nil {
		return nil, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	for _, pv := range volumes.Items {
		v.PersistentVolumes[pv.Name] = pv
	}
	var err error
	if v.Verdicts, err = r.judge(ctx, s); err != nil {
		return nil, err
	}
	return v.Attached(), nil
}
