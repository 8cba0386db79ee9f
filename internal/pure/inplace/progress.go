// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Facts are the input for the update of a Machine.
type Facts struct {
	Machine                   *clusterv1.Machine
	Infrastructure, Bootstrap reference.Object
	// Blocked is why the owner does not write the desired state of the Machine.
	Blocked string `json:",omitempty"`
}

// Question requests the update of the Machine, or its progress.
type Question struct {
	// Live says that the referenced objects must be read from the API server: a missing
	// mark may be stale cache content, or the end of an interrupted update.
	Live bool `json:"live,omitempty"`
}

// Reply is the result of a question.
type Reply struct {
	Again   time.Duration `json:"again,omitempty"` // when to ask again; 0: the Machine is updated
	Message string        `json:"message,omitempty"`
	// Failure is why there is no answer or, if it is final, the failure that the
	// extension reported.
	Failure *questions.Failure `json:"failure,omitempty"`
	Final   bool               `json:"final,omitempty"`
}

// Progress is the next step of an update, and its report.
type Progress struct {
	Reason  string        `json:"reason,omitempty"` // of condition Updating; empty if there is no update
	Message string        `json:"message,omitempty"`
	Again   time.Duration `json:"again,omitempty"`
	// Finish says that the marks are removed: the Machine is updated, or there is
	// nothing to update. Updated distinguishes the two.
	Finish  bool `json:"finish,omitempty"`
	Updated bool `json:"updated,omitempty"`
}

// Planner decides the next step of a Machine's update.
var Planner questions.Planner[Facts, Question, Reply, Progress] = progress

func progress(f Facts, ask *questions.Asker[Question, Reply]) (Progress, error) {
	m := f.Machine
	if !InProgress(m) {
		return Progress{Finish: Pending(m)}, nil // an interrupted update left the hook without a mark
	}
	if awaited := f.awaited(); awaited != "" {
		return updating(awaited), nil
	}
	live := !InProgress(f.Infrastructure.Obj) || f.Bootstrap.Obj != nil && !InProgress(f.Bootstrap.Obj)
	a, known := ask.Ask(Question{Live: live})
	switch {
	case !known:
		return updating("Asking the extension to update the Machine"), nil
	case a.Failure != nil && a.Final:
		return Progress{Reason: clusterv1.MachineInPlaceUpdateFailedReason, Message: fmt.Sprintf(
			"Update in place has failed: %v. It is tried again; delete the Machine to have it replaced", a.Failure)}, nil
	case a.Failure != nil:
		return updating(a.Failure.Error()), nil
	case a.Again > 0:
		p := updating(cmp.Or(a.Message, "Update in place is in progress"))
		p.Again = a.Again
		return p, nil
	}
	return Progress{Finish: true, Updated: true}, nil
}

func updating(message string) Progress {
	return Progress{Reason: clusterv1.MachineInPlaceUpdatingReason, Message: message}
}

// awaited is what must happen before the extension can be called.
func (f Facts) awaited() string {
	m := f.Machine
	by := metav1.GetControllerOfNoCopy(m)
	switch {
	case by == nil:
		return fmt.Sprintf("No controller that could update the Machine in place manages it: remove annotation %s", clusterv1.UpdateInProgressAnnotation)
	case !Pending(m) && f.Blocked != "":
		return fmt.Sprintf("%s %s: %s", by.Kind, by.Name, f.Blocked)
	case !Pending(m):
		return fmt.Sprintf("Waiting for %s %s to write the desired Machine", by.Kind, by.Name)
	case !ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false):
		return "Waiting for the bootstrap data of the Machine"
	case !ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false):
		return "Waiting for the infrastructure of the Machine to be provisioned"
	case !m.Status.NodeRef.IsDefined():
		return "Waiting for the Machine to have a Node"
	}
	for _, o := range []reference.Object{f.Infrastructure, f.Bootstrap} {
		if !o.Defined() || o.Obj != nil {
			continue
		}
		return cmp.Or(o.Problem(), fmt.Sprintf("Waiting for %s", o))
	}
	if f.Infrastructure.Obj == nil {
		return "The Machine refers to no infrastructure that could be updated"
	}
	return ""
}
