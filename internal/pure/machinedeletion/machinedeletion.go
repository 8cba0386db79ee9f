// SPDX-License-Identifier: Apache-2.0

// Package machinedeletion decides how a Machine is taken down.
//
//   - Pre-drain hooks are waited for, then the Node is drained, the volumes of
//     the Pods that have left are waited for, then pre-terminate hooks; then go
//     the infrastructure machine, the bootstrap config, the Node, and at last
//     the Machine. Each waits for the one before it.
//   - A Node that no control plane outlives is neither drained nor deleted:
//     nobody would answer, and nobody would miss it.
//   - Drain, volumes and the deletion of the Node have time limits of their own,
//     which begin with the step, or for the Node with the deletion. When one is
//     over the next step follows. Zero or none means no limit.
//   - Pods are not watched, so what leaves a Node is looked for: after a second,
//     then after as long as it has taken so far, at most every 20 seconds.
//
// What the plan has to know of the control plane, or of the workload cluster,
// and what became of what it had done, it asks for.
package machinedeletion

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// Facts are what is known before anything is asked.
type Facts struct {
	Machine *clusterv1.Machine `json:"machine"`
	Cluster *clusterv1.Cluster `json:"cluster,omitempty"` // nil: there is none
	Now     time.Time          `json:"now"`

	Node        *corev1.Node       `json:"node,omitempty"`        // nil: there is none, or it could not be looked for
	NodeFailure *questions.Failure `json:"nodeFailure,omitempty"` // why it could not
	Connected   bool               `json:"connected,omitempty"`   // to the workload cluster
	// Untried is how much longer this process may need to find out whether the
	// workload cluster answers.
	Untried time.Duration `json:"untried,omitempty"`

	Infrastructure Object `json:"infrastructure"`
	Bootstrap      Object `json:"bootstrap"`
}

// Object is one that the Machine refers to.
type Object struct {
	Name   string `json:"name,omitempty"` // with its kind, for messages
	Exists bool   `json:"exists,omitempty"`
	Going  bool   `json:"going,omitempty"` // is being deleted
}

// Plan is where the deletion stands and what is due now.
type Plan struct {
	Reason  string `json:"reason"` // of the condition Deleting
	Message string `json:"message,omitempty"`
	// Began is when which step began; nil: none has.
	Began   *clusterv1.MachineDeletionStatus `json:"began,omitempty"`
	Skipped []string                         `json:"skipped,omitempty"` // steps, and why
	Events  []Event                          `json:"events,omitempty"`
	Done    bool                             `json:"done,omitempty"`  // nothing holds the Machine any more
	After   time.Duration                    `json:"after,omitempty"` // when to look again; 0: a watch wakes us
}

// Event is what users are told of.
type Event struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Action string `json:"action"`
	Note   string `json:"note"`
}

// Question is what the plan has to know, or to have done.
type Question struct {
	Kind      Kind      `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	Grace     int64     `json:"grace,omitempty"` // seconds that a Pod has to end; 0: as many as it asks for itself
}

// Kind is what a question is about.
type Kind string

// What is asked. What says Do changes the world.
const (
	ControlPlane         Kind = "ControlPlane"         // the object that the Cluster refers to
	ControlPlaneMachines Kind = "ControlPlaneMachines" // how many are not being deleted
	DrainRules           Kind = "DrainRules"           // of the Machine's namespace
	Pods                 Kind = "Pods"                 // on the Node
	DaemonSet            Kind = "DaemonSet"            // whether it exists
	NamespaceLabels      Kind = "NamespaceLabels"      // of the workload cluster
	VolumeAttachments    Kind = "VolumeAttachments"    // of all Nodes
	PersistentVolumes    Kind = "PersistentVolumes"    // of the workload cluster

	DoCordon               Kind = "DoCordon"               // keep new Pods off the Node
	DoEvict                Kind = "DoEvict"                // a Pod
	DoDeleteInfrastructure Kind = "DoDeleteInfrastructure" // unless that has been asked for
	DoDeleteBootstrap      Kind = "DoDeleteBootstrap"      // likewise
	DoDeleteNode           Kind = "DoDeleteNode"           // by its name
)

// Answer holds what its question asks for, and nothing else.
type Answer struct {
	Exists      bool                         `json:"exists,omitempty"`      // ControlPlane, DaemonSet
	Going       bool                         `json:"going,omitempty"`       // ControlPlane: is being deleted
	External    bool                         `json:"external,omitempty"`    // ControlPlane: runs on no Machines
	Number      int                          `json:"number,omitempty"`      // ControlPlaneMachines
	Rules       []clusterv1.MachineDrainRule `json:"rules,omitempty"`       // DrainRules
	Pods        []corev1.Pod                 `json:"pods,omitempty"`        // Pods
	Labels      map[string]map[string]string `json:"labels,omitempty"`      // NamespaceLabels, by namespace
	Attachments []storagev1.VolumeAttachment `json:"attachments,omitempty"` // VolumeAttachments
	Volumes     []corev1.PersistentVolume    `json:"volumes,omitempty"`     // PersistentVolumes
	Gone        bool                         `json:"gone,omitempty"`        // DoEvict: the Pod went by itself
	Refused     string                       `json:"refused,omitempty"`     // DoEvict: why it was not accepted
	Held        bool                         `json:"held,omitempty"`        // DoDelete…: it is another's, and stays
	NodeNotGone *questions.Failure           `json:"nodeNotGone,omitempty"` // DoDeleteNode: why it could not be deleted
}

// Record is a plan with all that it was made from.
type Record = questions.Record[Facts, Question, Answer, Plan]

// Planner makes the plan of a Machine that is being deleted.
var Planner questions.Planner[Facts, Question, Answer, Plan] = plan

// step is one of the order. It does not go on while it waits, or asks.
type step func(*planner) (goOn bool, err error)

var inOrder = []step{preDrainHooks, drain, volumes, preTerminateHooks, infrastructure, bootstrap, node, finish}

// planner is a plan in the making.
type planner struct {
	Facts
	*questions.Asker[Question, Answer]
	plan Plan
}

func plan(f Facts, asker *questions.Asker[Question, Answer]) (Plan, error) {
	p := &planner{Facts: f, Asker: asker}
	p.plan.Began = f.Machine.Status.Deletion.DeepCopy()
	p.at(clusterv1.MachineDeletingReason, "")
	for _, s := range inOrder {
		if goOn, err := s(p); err != nil || !goOn {
			return p.plan, err
		}
	}
	return p.plan, nil
}

// at notes where the deletion stands.
func (p *planner) at(reason, format string, args ...any) {
	p.plan.Reason, p.plan.Message = reason, fmt.Sprintf(format, args...)
}

func (p *planner) skip(step, why string) {
	p.plan.Skipped = append(p.plan.Skipped, step+": "+why)
}

func (p *planner) tell(eventType, reason, action, format string, args ...any) {
	p.plan.Events = append(p.plan.Events, Event{eventType, reason, action, fmt.Sprintf(format, args...)})
}

// began returns the times at which steps began, to note one more.
func (p *planner) began() *clusterv1.MachineDeletionStatus {
	if p.plan.Began == nil {
		p.plan.Began = &clusterv1.MachineDeletionStatus{}
	}
	return p.plan.Began
}
