// SPDX-License-Identifier: Apache-2.0

// Package bootstrapdata plans the bootstrap data of a machine: whether it is created,
// for kubeadm init or for kubeadm join, which machine initializes the control plane, and
// how long the token in the data is extended.
package bootstrapdata

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// Facts are the input of a plan. They contain no secrets.
type Facts struct {
	Cluster   Cluster   `json:"cluster"`
	Machine   Machine   `json:"machine"`
	Discovery Discovery `json:"discovery"`

	// Made says that the data was created before. The Machine may have it even if the
	// status of the config does not report it, for example after a move.
	Made bool `json:"made,omitempty"`
	// Stale says that the data of a MachinePool, if it was created, is from another spec
	// or version than the current one, as far as is recorded.
	Stale bool `json:"stale,omitempty"`

	Now    time.Time     `json:"now"`
	TTL    time.Duration `json:"ttl"`             // how long a token lasts unless it is extended
	LookAt time.Time     `json:"lookAt,omitzero"` // the token need not be checked before
}

// Cluster is the part of the Cluster that the plan depends on.
type Cluster struct {
	Name        string `json:"name"`
	Provisioned bool   `json:"provisioned,omitempty"` // its infrastructure
	Initialized bool   `json:"initialized,omitempty"` // its control plane
	Endpoint    bool   `json:"endpoint,omitempty"`    // it has one
	// ControlPlane says that a control plane object creates the certificates.
	ControlPlane bool `json:"controlPlane,omitempty"`
}

// Machine is the Machine that the data is for, or the MachinePool whose machines share
// it.
type Machine struct {
	Kind           string `json:"kind"`
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Version        string `json:"version,omitempty"`
	ControlPlane   bool   `json:"controlPlane,omitempty"`
	Pool           bool   `json:"pool,omitempty"`
	HasNodes       bool   `json:"hasNodes,omitempty"`
	DataSecretName string `json:"dataSecretName,omitempty"` // set in the spec of the machine
}

// String names the machine for users.
func (m Machine) String() string { return fmt.Sprintf("%s %s/%s", m.Kind, m.Namespace, m.Name) }

// Discovery is how the machine finds its cluster, according to the spec.
type Discovery struct {
	File     bool   `json:"file,omitempty"`     // through the user's own kubeconfig
	Endpoint bool   `json:"endpoint,omitempty"` // the endpoint of the cluster is set
	Token    bool   `json:"token,omitempty"`    // a token is set
	TokenID  string `json:"tokenID,omitempty"`  // of a token that can be looked up; else empty
}

// Kind is the kind of a question. Kinds that start with Do change the cluster. They are
// asked only after the questions before them are done.
type Kind string

// The questions.
const (
	DoTakeOver         Kind = "DoTakeOver"         // report the data that the Machine has already
	DoOwn              Kind = "DoOwn"              // make the config the controller of the Secret with the data
	Token              Kind = "Token"              // how long the token lasts
	DoExtend           Kind = "DoExtend"           // extend the token
	DoFindCertificates Kind = "DoFindCertificates" // find the certificates and, with Generate, create those that are missing
	DoPrepare          Kind = "DoPrepare"          // read the objects that the spec refers to; with Init render it, which may fail
	DoTakeLock         Kind = "DoTakeLock"         // unless it is there
	Holder             Kind = "Holder"             // whether the Machine named Name exists
	DoReplaceLock      Kind = "DoReplaceLock"      // the Machine that held it was deleted
	DoReleaseLock      Kind = "DoReleaseLock"      // of any holder
	DoDiscover         Kind = "DoDiscover"         // complete discovery and store it; with NewToken, with another token
	DoStore            Kind = "DoStore"            // store the data; with Init the lock is released if that fails
)

// Question requests a fact or an action from the controller.
type Question struct {
	Kind     Kind   `json:"kind"`
	Name     string `json:"name,omitempty"`
	Generate bool   `json:"generate,omitempty"`
	Init     bool   `json:"init,omitempty"`
	NewToken bool   `json:"newToken,omitempty"`
}

// Answer holds only what its question requests.
type Answer struct {
	Missing      string    `json:"missing,omitempty"`      // DoFindCertificates: namespace and name of a Secret
	Held         bool      `json:"held,omitempty"`         // DoTakeLock: another machine has it
	Lock         string    `json:"lock,omitempty"`         // DoTakeLock: its content in that case
	Exists       bool      `json:"exists,omitempty"`       // Holder
	Disconnected bool      `json:"disconnected,omitempty"` // Token, DoDiscover: the workload cluster is not reachable
	Gone         bool      `json:"gone,omitempty"`         // Token: it does not exist
	Expires      time.Time `json:"expires,omitzero"`       // Token: zero if never
}

// Plan is the result.
type Plan struct {
	Waiting string `json:"waiting,omitempty"` // what is awaited, as a sentence; a watch reports it, or see Secret
	Secret  bool   `json:"secret,omitempty"`  // a Secret is awaited, which a watch may not report
	Refused string `json:"refused,omitempty"` // what the user has to change, as a sentence

	Look   time.Duration `json:"look,omitempty"`   // the token need not be checked for this long
	Again  time.Duration `json:"again,omitempty"`  // requeue after
	Forget bool          `json:"forget,omitempty"` // there is no token to check
}

// Record is a plan with all its inputs.
type Record = questions.Record[Facts, Question, Answer, Plan]

// Planner plans the data of one machine.
var Planner questions.Planner[Facts, Question, Answer, Plan] = plan
