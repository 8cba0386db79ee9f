// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// Facts are the input of an upgrade.
type Facts struct {
	Target        string       // spec.topology.version
	Creating      bool         // neither reference of the Cluster is set
	Initialized   bool         // condition ControlPlaneInitialized is True
	Pending       []string     // hooks marked in pending-hooks
	Step          string       // annotation upgrade-step; "" for none
	Annotations   []string     // names with the prefix of annotations that hold upgrades, sorted
	Concurrency   int          // how many groups of a kind may upgrade at a time, at least 1
	Versions      []string     // spec.kubernetesVersions of the class
	PlanExtension string       // full name of the handler of GenerateUpgradePlan; "" for none
	ControlPlane  ControlPlane // the observed control plane
	Workers       []Group      // MachineDeployments in the order of the topology, then MachinePools; those in the topology, and existing ones
}

// ControlPlane is the observed control plane.
type ControlPlane struct {
	Kind      string
	Exists    bool
	Version   string // spec.version
	Reported  string // status.version; "" during the first provisioning
	Upgrading bool   // it runs a version that is not Version, including build metadata
}

// Kinds of groups.
const (
	MachineDeployment = "MachineDeployment"
	MachinePool       = "MachinePool"
)

// Group is a MachineDeployment or a MachinePool.
type Group struct {
	Kind      string
	Name      string // in the topology
	Object    string // of the object; "" if it does not exist
	Wanted    bool   // is in the topology
	Exists    bool   // it exists and is not being deleted
	Version   string // of the object
	Upgrading bool   // not all its machines run Version
	Deferred  bool   // by annotation: its own upgrade is delayed
	Held      bool   // by annotation: its upgrade and those after it are delayed
}

// Key is the group's key in a plan.
func (g Group) Key() GroupKey { return GroupKey{g.Kind, g.Name} }

// GroupKey identifies a group of the topology.
type GroupKey struct{ Kind, Name string }

// MarshalText implements encoding.TextMarshaler: a key of a map has it in JSON.
func (k GroupKey) MarshalText() ([]byte, error) { return []byte(k.Kind + "/" + k.Name), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *GroupKey) UnmarshalText(text []byte) error {
	k.Kind, k.Name, _ = strings.Cut(string(text), "/")
	return nil
}

// Question is a hook to call. From and To are empty if its request has no such fields;
// KubernetesVersion of the After… hooks is To.
type Question struct {
	Hook, From, To string
	// FromWorkers is for GenerateUpgradePlan.
	FromWorkers string
	// The versions ahead for the control plane and the workers, joined by commas.
	ControlPlaneUpgrades, WorkersUpgrades string
}

// The hooks of the questions.
const (
	BeforeClusterCreate          = "BeforeClusterCreate"
	AfterControlPlaneInitialized = "AfterControlPlaneInitialized"
	BeforeClusterUpgrade         = "BeforeClusterUpgrade"
	BeforeControlPlaneUpgrade    = "BeforeControlPlaneUpgrade"
	AfterControlPlaneUpgrade     = "AfterControlPlaneUpgrade"
	BeforeWorkersUpgrade         = "BeforeWorkersUpgrade"
	AfterWorkersUpgrade          = "AfterWorkersUpgrade"
	AfterClusterUpgrade          = "AfterClusterUpgrade"
	GenerateUpgradePlan          = "GenerateUpgradePlan"
)

// Answer is the combined answer of all handlers of a hook.
type Answer struct {
	RetryAfter time.Duration // 0: continue
	Message    string
	// ControlPlane and Workers are the answer to GenerateUpgradePlan.
	ControlPlane, Workers []string
}

// State is the state of a control plane or a group.
type State string

// The states. A pending or deferred part stays unchanged, so that no machine is replaced
// twice, and no change is made at another version than the intended one.
const (
	Current         State = "Current"         // written according to the topology, with Version
	Upgrade         State = "Upgrade"         // the same, and Version differs from before
	PendingUpgrade  State = "PendingUpgrade"  // waits for its upgrade
	Deferred        State = "Deferred"        // waits for its upgrade, which an annotation delays
	PendingCreation State = "PendingCreation" // created once the control plane is provisioned
)

// Decision is the decision for a control plane or a group.
type Decision struct {
	Version string // to write
	State   State
}

// Blocking is a hook that blocks a step.
type Blocking struct{ Hook, Message string }

// Plan is what to write and to record now.
type Plan struct {
	Wait         bool // BeforeClusterCreate blocks: nothing is written
	ControlPlane Decision
	Workers      map[GroupKey]Decision // for each group of the topology
	// Pending and Step must be stored before any object is written.
	Pending []string // sorted
	Step    string   // "" for none
	// ControlPlaneUpgrades and WorkersUpgrades are the versions ahead, including a step
	// that is taken now.
	ControlPlaneUpgrades, WorkersUpgrades []string
	Blocking                              []Blocking // sorted by hook
	RetryAfter                            time.Duration
}

// Asker collects the questions of Next.
type Asker = questions.Asker[Question, Answer]

// Record is a plan with all its inputs.
type Record = questions.Record[Facts, Question, Answer, Plan]

// Planner computes plans.
var Planner questions.Planner[Facts, Question, Answer, Plan] = Next
