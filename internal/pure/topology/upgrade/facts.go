// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"time"

	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// Facts are what an upgrade depends on.
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
	ControlPlane  ControlPlane // what there is
	Workers       []Group      // MachineDeployments in the order of the topology, then MachinePools; of the topology, and such that exist
}

// ControlPlane is the control plane as it is.
type ControlPlane struct {
	Kind      string
	Exists    bool
	Version   string // spec.version
	Reported  string // status.version; "" while it is provisioned
	Upgrading bool   // a version that it runs is not Version, build metadata counted
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
	Object    string // of the object; "" if there is none
	Wanted    bool   // is in the topology
	Exists    bool   // and is not being deleted
	Version   string // of the object
	Upgrading bool   // not all its machines run Version
	Deferred  bool   // by annotation: its own upgrade is put off
	Held      bool   // by annotation: its upgrade and those after it are put off
}

// Key is how a plan names the group.
func (g Group) Key() GroupKey { return GroupKey{g.Kind, g.Name} }

// GroupKey names a group of the topology.
type GroupKey struct{ Kind, Name string }

// Question is a hook to call. From and To are empty where its request has no
// such fields; KubernetesVersion of the After… hooks is To.
type Question struct {
	Hook, From, To string
	// FromWorkers is for GenerateUpgradePlan.
	FromWorkers string
	// What is ahead of the control plane and of the workers, joined by commas.
	ControlPlaneUpgrades, WorkersUpgrades string
}

// Hooks that are asked about.
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

// Answer is what all handlers of a hook together say.
type Answer struct {
	RetryAfter time.Duration // 0: go on
	Message    string
	// ControlPlane and Workers are the answer to GenerateUpgradePlan.
	ControlPlane, Workers []string
}

// State is where a control plane or a group stands.
type State string

// The states. What is pending or deferred stays as it is, so that no machine is
// replaced twice, and no change is made at another version than it was meant for.
const (
	Current         State = "Current"         // is written as the topology has it, with Version
	Upgrade         State = "Upgrade"         // the same, and Version is another one than before
	PendingUpgrade  State = "PendingUpgrade"  // waits for its upgrade
	Deferred        State = "Deferred"        // waits for its upgrade, which an annotation puts off
	PendingCreation State = "PendingCreation" // is made once the control plane is there
)

// Decision is what becomes of a control plane or a group.
type Decision struct {
	Version string // to write
	State   State
}

// Blocking is a hook that holds something back.
type Blocking struct{ Hook, Message string }

// Plan is what to write, and to remember, now.
type Plan struct {
	Wait         bool // BeforeClusterCreate blocks: nothing is written at all
	ControlPlane Decision
	Workers      map[GroupKey]Decision // for each group of the topology
	// Pending and Step are to be stored before any object is written.
	Pending []string // sorted
	Step    string   // "" for none
	// ControlPlaneUpgrades and WorkersUpgrades are ahead, a step that is taken
	// now included.
	ControlPlaneUpgrades, WorkersUpgrades []string
	Blocking                              []Blocking // sorted by hook
	RetryAfter                            time.Duration
}

// Asker is whom Next asks.
type Asker = questions.Asker[Question, Answer]

// Record is a plan with all that it was made from.
type Record = questions.Record[Facts, Question, Answer, Plan]

// Planner makes plans.
var Planner questions.Planner[Facts, Question, Answer, Plan] = Next
