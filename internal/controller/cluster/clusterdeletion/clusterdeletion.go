// SPDX-License-Identifier: Apache-2.0

// Package clusterdeletion decides how a Cluster is deleted.
//
//   - Deletion waits until hook BeforeClusterDelete of a topology permits it.
//   - Workers are deleted first: those that are managed only by the Cluster. Deployments
//     and sets delete their own Machines. The deletion waits for all of them.
//   - The control plane is next: its object, or the Machines of a control plane without
//     one.
//   - The infrastructure is last, and after it the Cluster.
//   - Objects of other owners stay, and the deletion does not wait for them. If a
//     control plane object stays, the Cluster's own control plane Machines are still
//     deleted.
package clusterdeletion

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Facts are the input before any question is asked. The referenced objects are read only
// when they are due for deletion.
type Facts struct {
	Infrastructure reference.Object `json:"infrastructure"`
	ControlPlane   reference.Object `json:"controlPlane"`
	clusterstatus.Members
	// Hooked says that hook BeforeClusterDelete does not permit the deletion yet.
	Hooked bool `json:"hooked,omitempty"`
}

// Plan is the progress of the deletion.
type Plan struct {
	clusterstatus.Stage
	Done bool `json:"done,omitempty"` // nothing blocks the deletion of the Cluster any longer
}

// Question requests the deletion of an object, unless that was requested before.
type Question struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Kind is the kind of the object to delete, or the role of an object that the Cluster
// refers to.
type Kind string

// The objects to delete.
const (
	MachineDeployment Kind = "MachineDeployment"
	MachineSet        Kind = "MachineSet"
	MachinePool       Kind = "MachinePool"
	Machine           Kind = "Machine"
	ControlPlane      Kind = "ControlPlane"
	Infrastructure    Kind = "Infrastructure"
)

// Answer is the result of a question.
type Answer struct {
	Gone    bool               `json:"gone,omitempty"`    // ControlPlane, Infrastructure: it does not and cannot exist
	Held    bool               `json:"held,omitempty"`    // ControlPlane, Infrastructure: it belongs to another owner, and stays
	Unknown *questions.Failure `json:"unknown,omitempty"` // ControlPlane, Infrastructure: why it could not be read
	Failed  *questions.Failure `json:"failed,omitempty"`  // the others: why it could not be deleted
}

// Planner plans the deletion of a Cluster.
var Planner questions.Planner[Facts, Question, Answer, Plan] = plan

// planner builds one plan.
type planner struct {
	Facts
	*questions.Asker[Question, Answer]
	plan Plan
}

func plan(f Facts, asker *questions.Asker[Question, Answer]) (Plan, error) {
	p := &planner{Facts: f, Asker: asker}
	for _, step := range []func(*planner) (goOn bool, err error){hook, workers, controlPlane, infrastructure} {
		if goOn, err := step(p); err != nil || !goOn {
			return p.plan, err
		}
	}
	p.at(clusterv1.ClusterDeletingDeletionCompletedReason, "Deletion completed")
	p.plan.Done = true
	return p.plan, nil
}

func (p *planner) at(reason, message string) {
	p.plan.Stage = clusterstatus.Stage{Reason: reason, Message: message}
}

// hook waits until the topology controller reports that the hook permits the deletion.
func hook(p *planner) (bool, error) {
	if p.Hooked {
		p.at(clusterv1.ClusterDeletingWaitingForBeforeDeleteHookReason, "Waiting for BeforeClusterDelete hook")
	}
	return !p.Hooked, nil
}

// workers deletes the workers that are managed only by the Cluster.
func workers(p *planner) (bool, error) {
	all := len(p.Deployments) + len(p.Sets) + len(p.Pools) + len(p.Workers)
	if all == 0 {
		return true, nil
	}
	p.at(clusterv1.ClusterDeletingWaitingForWorkersDeletionReason, "Waiting for "+p.left()+" to be deleted")
	return false, errors.Join(
		remove(p, MachineDeployment, p.Deployments), remove(p, MachineSet, p.StandaloneSets()),
		remove(p, MachinePool, p.Pools), remove(p, Machine, p.StandaloneWorkers()))
}

// remove requests the deletion of the objects of a kind that are not being deleted yet.
// A failure does not prevent the deletion of the others.
func remove[T metav1.Object](p *planner, kind Kind, objects []T) error {
	var errs []error
	for _, o := range objects {
		if !o.GetDeletionTimestamp().IsZero() {
			continue
		}
		if a, _ := p.Ask(Question{kind, o.GetName()}); a.Failed != nil {
			errs = append(errs, fmt.Errorf("delete %s %s/%s: %w", kind, o.GetNamespace(), o.GetName(), a.Failed))
		}
	}
	return errors.Join(errs...)
}

// left lists the workers that still exist.
func (p *planner) left() string {
	var parts []string
	for _, of := range []struct {
		kind   string
		number int
	}{{"MachineDeployment", len(p.Deployments)}, {"MachineSet", len(p.Sets)}, {"MachinePool", len(p.Pools)}, {"worker Machine", len(p.Workers)}} {
		if of.number > 0 {
			parts = append(parts, conditions.Count(of.number, of.kind))
		}
	}
	return strings.Join(parts, ", ")
}

func controlPlane(p *planner) (bool, error) {
	if !p.Facts.ControlPlane.Defined() {
		return p.controlPlaneMachines()
	}
	a, goOn, err := p.goes(p.Facts.ControlPlane, ControlPlane, clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason)
	if a.Held {
		return p.controlPlaneMachines()
	}
	return goOn, err
}

// controlPlaneMachines deletes the Machines that users created without a control plane
// object.
func (p *planner) controlPlaneMachines() (bool, error) {
	machines := p.ControlPlaneMachines
	if len(machines) == 0 {
		return true, nil
	}
	p.at(clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason, fmt.Sprintf("Waiting for %s to be deleted", conditions.Count(len(machines), "control plane Machine")))
	return false, remove(p, Machine, machines)
}

func infrastructure(p *planner) (bool, error) {
	if !p.Facts.Infrastructure.Defined() {
		return true, nil
	}
	_, goOn, err := p.goes(p.Facts.Infrastructure, Infrastructure, clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason)
	return goOn, err
}

// goes requests the deletion of the object behind a reference, and waits until it is
// deleted.
func (p *planner) goes(o reference.Object, role Kind, reason string) (a Answer, goOn bool, err error) {
	p.at(reason, fmt.Sprintf("Waiting for %s to be deleted", o))
	if a, _ = p.Ask(Question{Kind: role}); a.Unknown != nil {
		p.plan.Message += ": " + a.Unknown.Error()
		return a, false, a.Unknown
	}
	return a, a.Gone || a.Held, nil
}
