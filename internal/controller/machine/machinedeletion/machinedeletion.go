// SPDX-License-Identifier: Apache-2.0

// Package machinedeletion decides how a Machine is deleted.
//
//   - The order is: wait for pre-drain hooks, drain the Node, wait until the volumes of
//     the drained Pods are detached, wait for pre-terminate hooks; then delete the
//     infrastructure machine, the bootstrap config, the Node, and finally the Machine.
//     Each step waits for the one before it.
//   - A Node is neither drained nor deleted if its control plane is deleted with it: no
//     API server would answer, and no client would depend on the Node.
//   - Drain, volume detachment and the deletion of the Node have separate timeouts,
//     which start with the step, or for the Node with the deletion. On expiry the next
//     step follows. Zero or none means no timeout.
//   - Pods are not watched, so the drain polls: after a second, then after as long as it
//     has taken so far, at most every 20 seconds.
//
// The plan requests the facts about the control plane and the workload cluster, and the
// results of its actions, as questions.
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

// Facts are the input before any question is asked.
type Facts struct {
	Machine *clusterv1.Machine `json:"machine"`
	Cluster *clusterv1.Cluster `json:"cluster,omitempty"` // nil: it does not exist
	Now     time.Time          `json:"now"`

	Node        *corev1.Node       `json:"node,omitempty"`        // nil: it does not exist, or could not be read
	NodeFailure *questions.Failure `json:"nodeFailure,omitempty"` // why it could not be read
	Connected   bool               `json:"connected,omitempty"`   // to the workload cluster
	// Untried is how much longer this process may need to determine whether the workload
	// cluster answers.
	Untried time.Duration `json:"untried,omitempty"`

	Infrastructure Object `json:"infrastructure"`
	Bootstrap      Object `json:"bootstrap"`
}

// Object is an object that the Machine refers to.
type Object struct {
	Name   string `json:"name,omitempty"` // with its kind, for messages
	Exists bool   `json:"exists,omitempty"`
	Going  bool   `json:"going,omitempty"` // it is being deleted
}

// Plan is the progress of the deletion and the actions that are due.
type Plan struct {
	Reason  string `json:"reason"` // of the condition Deleting
	Message string `json:"message,omitempty"`
	// Began is when each step started; nil: none has.
	Began   *clusterv1.MachineDeletionStatus `json:"began,omitempty"`
	Skipped []string                         `json:"skipped,omitempty"` // steps, and why
	Events  []Event                          `json:"events,omitempty"`
	Done    bool                             `json:"done,omitempty"`  // nothing blocks the deletion of the Machine any longer
	After   time.Duration                    `json:"after,omitempty"` // when to requeue; 0: a watch triggers the next reconcile
}

// Event is an event for users.
type Event struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	Action string `json:"action"`
	Note   string `json:"note"`
}

// Question requests a fact or an action.
type Question struct {
	Kind      Kind      `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name,omitempty"`
	UID       types.UID `json:"uid,omitempty"`
	Grace     int64     `json:"grace,omitempty"` // seconds that a Pod has to terminate; 0: as in its spec
}

// Kind is the kind of a question.
type Kind string

// The questions. Those that start with Do change the cluster.
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
	DoEvict                Kind = "DoEvict"                // evict a Pod
	DoDeleteInfrastructure Kind = "DoDeleteInfrastructure" // unless that was requested before
	DoDeleteBootstrap      Kind = "DoDeleteBootstrap"      // likewise
	DoDeleteNode           Kind = "DoDeleteNode"           // the one in the facts
)

// Answer holds only what its question requests.
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
	Gone        bool                         `json:"gone,omitempty"`        // DoEvict: the Pod was deleted already
	Refused     string                       `json:"refused,omitempty"`     // DoEvict: why it was not accepted
	Held        bool                         `json:"held,omitempty"`        // DoDelete…: it belongs to another owner, and stays
	NodeNotGone *questions.Failure           `json:"nodeNotGone,omitempty"` // DoDeleteNode: why it could not be deleted
}

// Record is a plan with all its inputs.
type Record = questions.Record[Facts, Question, Answer, Plan]

// Planner plans the deletion of a Machine.
var Planner questions.Planner[Facts, Question, Answer, Plan] = plan

// step is one step of the order. goOn is false while it waits, or asks.
type step func(*planner) (goOn bool, err error)

var inOrder = []step{preDrainHooks, drain, volumes, preTerminateHooks, infrastructure, bootstrap, node, finish}

// planner builds one plan.
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

// at sets the progress of the deletion.
func (p *planner) at(reason, format string, args ...any) {
	p.plan.Reason, p.plan.Message = reason, fmt.Sprintf(format, args...)
}

func (p *planner) skip(step, why string) {
	p.plan.Skipped = append(p.plan.Skipped, step+": "+why)
}

func (p *planner) record(eventType, reason, action, format string, args ...any) {
	p.plan.Events = append(p.plan.Events, Event{eventType, reason, action, fmt.Sprintf(format, args...)})
}

// began returns the times at which steps started, to add one.
func (p *planner) began() *clusterv1.MachineDeletionStatus {
	if p.plan.Began == nil {
		p.plan.Began = &clusterv1.MachineDeletionStatus{}
	}
	return p.plan.Began
}
