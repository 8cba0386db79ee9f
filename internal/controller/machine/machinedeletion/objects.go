// SPDX-License-Identifier: Apache-2.0

package machinedeletion

import (
	"slices"
	"strings"
	"time"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// hooks lists the annotations that block the deletion.
func (p *planner) hooks(prefix string) (found []string) {
	for key := range p.Machine.Annotations {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}
	slices.Sort(found)
	return found
}

// preDrainHooks waits until the clients that set the annotations have acted before the
// drain of the Node.
func preDrainHooks(p *planner) (bool, error) {
	hooks := p.hooks(clusterv1.PreDrainDeleteHookAnnotationPrefix)
	if len(hooks) == 0 {
		return true, nil
	}
	if why, known := p.spared(); !known || why != "" {
		return known, nil
	}
	since := p.note(&p.began().WaitForPreDrainHookStartTime)
	p.at(clusterv1.MachineDeletingWaitingForPreDrainHookReason, "Waiting for pre-drain hooks to complete (since %s), that is for the removal of the annotations: %s", since.UTC().Format(time.RFC3339), strings.Join(hooks, ", "))
	return false, nil
}

// preTerminateHooks waits until the clients that set the annotations have acted before
// the deletion of the infrastructure machine, whether the Node was drained or not.
func preTerminateHooks(p *planner) (bool, error) {
	hooks := p.hooks(clusterv1.PreTerminateDeleteHookAnnotationPrefix)
	if len(hooks) == 0 {
		return true, nil
	}
	since := p.note(&p.began().WaitForPreTerminateHookStartTime)
	p.at(clusterv1.MachineDeletingWaitingForPreTerminateHookReason, "Waiting for pre-terminate hooks to complete (since %s), that is for the removal of the annotations: %s", since.UTC().Format(time.RFC3339), strings.Join(hooks, ", "))
	return false, nil
}

func infrastructure(p *planner) (bool, error) {
	return p.goes(p.Infrastructure, DoDeleteInfrastructure, clusterv1.MachineDeletingWaitingForInfrastructureDeletionReason)
}

func bootstrap(p *planner) (bool, error) {
	return p.goes(p.Bootstrap, DoDeleteBootstrap, clusterv1.MachineDeletingWaitingForBootstrapDeletionReason)
}

// goes requests the deletion of an object and waits for it; the watch triggers the next
// reconcile. An object of another owner stays.
func (p *planner) goes(o Object, how Kind, reason string) (bool, error) {
	if !o.Exists {
		return true, nil
	}
	p.at(reason, "Waiting for %s to be deleted", o.Name)
	a, _ := p.Ask(Question{Kind: how})
	return a.Held, nil
}

func finish(p *planner) (bool, error) {
	p.at(clusterv1.MachineDeletingDeletionCompletedReason, "Deletion completed")
	p.plan.Done = true
	return true, nil
}
