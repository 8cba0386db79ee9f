// SPDX-License-Identifier: Apache-2.0

// Package clusterdeletion decides how a Cluster is taken down.
//
//   - Nothing goes before the hook BeforeClusterDelete of a topology lets it.
//   - Workers go first: what nobody but the Cluster manages is deleted;
//     deployments and sets delete their own. All of them are waited for.
//   - Then goes the control plane: its object, or the Machines of one without.
//   - The infrastructure goes last, and after it the Cluster.
//   - What belongs to somebody else stays, and is not waited for. A control
//     plane object that stays leaves Machines of the Cluster's own to be deleted.
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

// Facts are what is known before anything is asked. The objects that are
// referred to are looked for only when their turn has come.
type Facts struct {
	Infrastructure reference.Object `json:"infrastructure"`
	ControlPlane   reference.Object `json:"controlPlane"`
	clusterstatus.Members
	// Hooked says that hook BeforeClusterDelete has not let the Cluster go yet.
	Hooked bool `json:"hooked,omitempty"`
}

// Plan is where the deletion stands.
type Plan struct {
	clusterstatus.Stage
	Done bool `json:"done,omitempty"` // nothing holds the Cluster any more
}

// Question is what the plan wants deleted, unless that has been asked for.
type Question struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Kind is the kind of what is to be deleted, or the role of what the Cluster
// refers to.
type Kind string

// What is to be deleted.
const (
	MachineDeployment Kind = "MachineDeployment"
	MachineSet        Kind = "MachineSet"
	MachinePool       Kind = "MachinePool"
	Machine           Kind = "Machine"
	ControlPlane      Kind = "ControlPlane"
	Infrastructure    Kind = "Infrastructure"
)

// Answer is what came of it.
type Answer struct {
	Gone    bool               `json:"gone,omitempty"`    // ControlPlane, Infrastructure: it is not there, nor can be
	Held    bool               `json:"held,omitempty"`    // ControlPlane, Infrastructure: it is another's, and stays
	Unknown *questions.Failure `json:"unknown,omitempty"` // ControlPlane, Infrastructure: why it could not be looked for
	Failed  *questions.Failure `json:"failed,omitempty"`  // the others: why it could not be deleted
}

// Planner makes the plan of a Cluster that is being deleted.
var Planner questions.Planner[Facts, Question, Answer, Plan] = plan

// planner is a plan in the making.
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

// hook waits until the topology controller says that the hook lets the Cluster go.
func hook(p *planner) (bool, error) {
	if p.Hooked {
		p.at(clusterv1.ClusterDeletingWaitingForBeforeDeleteHookReason, "Waiting for BeforeClusterDelete hook")
	}
	return !p.Hooked, nil
}

// workers deletes what nobody but the Cluster manages.
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

// remove has those of a kind deleted that are not yet on their way. One that
// fails does not keep the others.
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

// left says what of the workers is still there.
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

// controlPlaneMachines deletes those that users made without a control plane
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

// goes has the object behind a reference deleted, and waits until it has gone.
func (p *planner) goes(o reference.Object, role Kind, reason string) (a Answer, goOn bool, err error) {
	p.at(reason, fmt.Sprintf("Waiting for %s to be deleted", o))
	if a, _ = p.Ask(Question{Kind: role}); a.Unknown != nil {
		p.plan.Message += ": " + a.Unknown.Error()
		return a, false, a.Unknown
	}
	return a, a.Gone || a.Held, nil
}
