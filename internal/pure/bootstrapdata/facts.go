// SPDX-License-Identifier: Apache-2.0

// Package bootstrapdata plans what happens to the bootstrap data of a machine:
// whether it is made, for kubeadm init or for kubeadm join, who initialises the
// control plane, and how long the token in it lasts.
package bootstrapdata

import (
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// Facts are what a plan starts from. There is no secret among them.
type Facts struct {
	Cluster   Cluster   `json:"cluster"`
	Machine   Machine   `json:"machine"`
	Discovery Discovery `json:"discovery"`

	// Made says that the data was made before. The Machine may have it already
	// when the config does not tell of it: after a move.
	Made bool `json:"made,omitempty"`
	// Stale says that data of a MachinePool was made, if at all, of another spec or
	// version than there is now, as far as anybody remembers.
	Stale bool `json:"stale,omitempty"`

	Now    time.Time     `json:"now"`
	TTL    time.Duration `json:"ttl"`             // how long a token lasts unless it is extended
	LookAt time.Time     `json:"lookAt,omitzero"` // nobody need look at the token before
}

// Cluster is what the plan knows of the Cluster.
type Cluster struct {
	Name        string `json:"name"`
	Provisioned bool   `json:"provisioned,omitempty"` // its infrastructure
	Initialized bool   `json:"initialized,omitempty"` // its control plane
	Endpoint    bool   `json:"endpoint,omitempty"`    // it has one
	// ControlPlane says that a control plane object makes the certificates.
	ControlPlane bool `json:"controlPlane,omitempty"`
}

// Machine is the Machine that the data is for, or the MachinePool, whose many
// machines share it.
type Machine struct {
	Kind           string `json:"kind"`
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	Version        string `json:"version,omitempty"`
	ControlPlane   bool   `json:"controlPlane,omitempty"`
	Pool           bool   `json:"pool,omitempty"`
	HasNodes       bool   `json:"hasNodes,omitempty"`
	DataSecretName string `json:"dataSecretName,omitempty"` // that it has been given
}

// String names the machine for people.
func (m Machine) String() string { return fmt.Sprintf("%s %s/%s", m.Kind, m.Namespace, m.Name) }

// Discovery is what the spec says of how the machine finds its cluster.
type Discovery struct {
	File     bool   `json:"file,omitempty"`     // by the user's own kubeconfig
	Endpoint bool   `json:"endpoint,omitempty"` // where the cluster is
	Token    bool   `json:"token,omitempty"`    // there is one
	TokenID  string `json:"tokenID,omitempty"`  // of one that can be looked for; else empty
}

// Kind is what a question asks for. Do… change the world, and are put only when
// what comes before them is done.
type Kind string

// The questions.
const (
	DoTakeOver         Kind = "DoTakeOver"         // tell of the data that the Machine has already
	DoOwn              Kind = "DoOwn"              // make the config the controller of the Secret with the data
	Token              Kind = "Token"              // how long it lasts
	DoExtend           Kind = "DoExtend"           // the token
	DoFindCertificates Kind = "DoFindCertificates" // and, where Generate is set, make those that are missing
	DoPrepare          Kind = "DoPrepare"          // read what the spec refers to; with Init render it, which may fail
	DoTakeLock         Kind = "DoTakeLock"         // unless it is there
	Holder             Kind = "Holder"             // whether the Machine called Name exists
	DoReplaceLock      Kind = "DoReplaceLock"      // that Machine has gone
	DoReleaseLock      Kind = "DoReleaseLock"      // whoever has it
	DoDiscover         Kind = "DoDiscover"         // complete discovery and store it; with NewToken, with another token
	DoStore            Kind = "DoStore"            // the data; with Init the lock goes if that fails
)

// Question asks the controller for a fact or an act.
type Question struct {
	Kind     Kind   `json:"kind"`
	Name     string `json:"name,omitempty"`
	Generate bool   `json:"generate,omitempty"`
	Init     bool   `json:"init,omitempty"`
	NewToken bool   `json:"newToken,omitempty"`
}

// Answer holds what its question asks for, and nothing else.
type Answer struct {
	Missing      string    `json:"missing,omitempty"`      // DoFindCertificates: a Secret, by namespace and name
	Held         bool      `json:"held,omitempty"`         // DoTakeLock: it was there
	Lock         string    `json:"lock,omitempty"`         // DoTakeLock: what it says then
	Exists       bool      `json:"exists,omitempty"`       // Holder
	Disconnected bool      `json:"disconnected,omitempty"` // Token, DoDiscover: the workload cluster is not reached
	Gone         bool      `json:"gone,omitempty"`         // Token
	Expires      time.Time `json:"expires,omitzero"`       // Token: zero if never
}

// Plan is what came of it.
type Plan struct {
	Waiting string `json:"waiting,omitempty"` // for what, as a sentence; a watch wakes us, or Secret does
	Secret  bool   `json:"secret,omitempty"`  // it is for a Secret, which a watch need not show
	Refused string `json:"refused,omitempty"` // what the user has to change, as a sentence

	Look   time.Duration `json:"look,omitempty"`   // the token need not be looked at for so long
	Again  time.Duration `json:"again,omitempty"`  // try again then
	Forget bool          `json:"forget,omitempty"` // there is no token to look after
}

// Record is a plan with all that it was made from.
type Record = questions.Record[Facts, Question, Answer, Plan]

// Planner plans the data of one machine.
var Planner questions.Planner[Facts, Question, Answer, Plan] = plan
