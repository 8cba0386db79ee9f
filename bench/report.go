// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/bench/providers"
)

// Result is the cost of a run.
type Result struct {
	Scenario Scenario `json:"scenario"`
	// ReadySeconds is from the start of the process to all controllers ready.
	ReadySeconds float64 `json:"readySeconds"`
	// WallSeconds is from the first create to all clusters Available with all
	// their machines.
	WallSeconds float64 `json:"wallSeconds"`
	Clusters    Spread  `json:"clusterSeconds"`

	CPUSeconds           float64 `json:"cpuSeconds"`
	CPUSecondsPerCluster float64 `json:"cpuSecondsPerCluster"`
	PeakMiB              int64   `json:"peakMiB"`

	Requests           float64 `json:"requests"`
	RequestsPerCluster float64 `json:"requestsPerCluster"`
	Writes             float64 `json:"writes"`
	WritesPerCluster   float64 `json:"writesPerCluster"`
	Conflicts          float64 `json:"conflicts"`
	MachinesCreated    int     `json:"machinesCreated"`
	MachinesReplaced   int     `json:"machinesReplaced"`

	Plain      Plain            `json:"plain"`
	ClassEdit  Edit             `json:"classEdit"`
	Extensions Warmth           `json:"extensions"`
	Addons     Addons           `json:"addons"`
	Install    Install          `json:"install"`
	Idle       Window           `json:"idle"`
	Decisions  planes.Decisions `json:"decisions"`
	Containers Containers       `json:"containers"`
	Providers  *providers.Cost  `json:"providers,omitempty"`
	Health     Health           `json:"health"`
	InPlace    InPlace          `json:"inPlace"`
	Restart    Restart          `json:"restart"`
	Deletion   Deletion         `json:"deletion"`
	Move       Move             `json:"move"`
	Looks      []Look           `json:"looks"`

	ByVerbAndResource []planes.Count `json:"byVerbAndResource"`
}

// Spread is how long single clusters took.
type Spread struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Plain is the cost of the earlier clusters without a class in the same run.
type Plain struct {
	WallSeconds          float64 `json:"wallSeconds"`
	CPUSecondsPerCluster float64 `json:"cpuSecondsPerCluster"`
	RequestsPerCluster   float64 `json:"requestsPerCluster"`
	// CPURatio is that of class-based ones to these.
	CPURatio float64 `json:"cpuRatio"`
	// RequestsOfTopology are the applies of a class-based cluster, and its additional
	// patches of the Cluster, its status, and events compared with a plain one.
	RequestsOfTopology float64        `json:"requestsOfTopology"`
	ByVerbAndResource  []planes.Count `json:"byVerbAndResource"`
}

// Edit is the cost of applying a change of the class to all clusters.
type Edit struct {
	// Seconds is from the change until the last Machine has it.
	Seconds              float64 `json:"seconds"`
	CPUSecondsPerCluster float64 `json:"cpuSecondsPerCluster"`
	// AppliesPerCluster are those of the topology, WritesPerCluster all of metadata
	// and spec. The control plane changes, and its Machines.
	AppliesPerCluster float64        `json:"appliesPerCluster"`
	WritesPerCluster  float64        `json:"writesPerCluster"`
	Conflicts         float64        `json:"conflicts"`
	ByVerbAndResource []planes.Count `json:"byVerbAndResource"`
}

// Warmth is how long the discovery of all extensions took.
type Warmth struct {
	// CreateSeconds is from the first ExtensionConfig to the last, and DiscoveredSeconds
	// until all except the hanging ones are discovered.
	CreateSeconds     float64 `json:"createSeconds"`
	DiscoveredSeconds float64 `json:"discoveredSeconds"`
	// WarmUpSeconds is from a second start of the process until all are discovered again.
	WarmUpSeconds float64 `json:"warmUpSeconds"`
}

// Install is the cost of installing a provider with many definitions.
type Install struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	Requests   float64 `json:"requests"`
}

// Addons is the cost of applying ClusterResourceSets on the management cluster. The
// requests to workload clusters are as many as the applied resources.
type Addons struct {
	// Applied is how many resources, and Seconds from the first label to the last.
	Applied            int            `json:"applied"`
	Seconds            float64        `json:"seconds"`
	CPUSeconds         float64        `json:"cpuSeconds"`
	Requests           float64        `json:"requests"`
	RequestsPerCluster float64        `json:"requestsPerCluster"`
	Conflicts          float64        `json:"conflicts"`
	ByVerbAndResource  []planes.Count `json:"byVerbAndResource"`
}

// Health is the cost of finding Machines unhealthy and deleting them.
type Health struct {
	Machines int `json:"machines"`
	// LateSeconds is the longest delay from a deadline to the condition, as a client
	// observes it.
	LateSeconds float64 `json:"lateSeconds"`
	// RequestsPerMachine are those until it is being deleted; its replacement
	// is not counted.
	RequestsPerMachine float64        `json:"requestsPerMachine"`
	ByVerbAndResource  []planes.Count `json:"byVerbAndResource"`
}

// InPlace is the cost of updating workers in place.
type InPlace struct {
	Machines int `json:"machines"`
	// Replaced is how many Machines were created meanwhile: none should be.
	Replaced int `json:"replaced"`
	// Seconds is from the first change to all up to date.
	Seconds              float64        `json:"seconds"`
	CPUSecondsPerMachine float64        `json:"cpuSecondsPerMachine"`
	RequestsPerMachine   float64        `json:"requestsPerMachine"`
	Conflicts            float64        `json:"conflicts"`
	ByVerbAndResource    []planes.Count `json:"byVerbAndResource"`
}

// Window is a time without requests.
type Window struct {
	Seconds  float64        `json:"seconds"`
	Cores    float64        `json:"cores"`
	MiB      int64          `json:"mib"`
	Requests float64        `json:"requests"`
	Writes   []planes.Count `json:"writes"`
	// Decisions is how many decisions of controllers were recorded.
	Decisions int `json:"decisions"`
}

// Restart is the cost of a second start on the same data.
type Restart struct {
	StopSeconds  float64        `json:"stopSeconds"`
	ReadySeconds float64        `json:"readySeconds"`
	CPUSeconds   float64        `json:"cpuSeconds"`
	PeakMiB      int64          `json:"peakMiB"`
	Writes       []planes.Count `json:"writes"`
}

// Deletion is the cost of deleting all clusters.
type Deletion struct {
	// Seconds is from the first delete until no Cluster exists.
	Seconds            float64        `json:"seconds"`
	CPUSeconds         float64        `json:"cpuSeconds"`
	Requests           float64        `json:"requests"`
	RequestsPerCluster float64        `json:"requestsPerCluster"`
	Conflicts          float64        `json:"conflicts"`
	ByVerbAndResource  []planes.Count `json:"byVerbAndResource"`
}

// Move is the cost of moving all clusters to another plane of the host.
type Move struct {
	Objects int `json:"objects"`
	// Seconds is the move alone, AvailableSeconds until all Clusters are Available at
	// the target.
	Seconds          float64 `json:"seconds"`
	AvailableSeconds float64 `json:"availableSeconds"`
	// RequestsPerObject are those to both planes, including those of controllers.
	RequestsPerObject float64 `json:"requestsPerObject"`
	// CPUAtSource, CPUAtTarget and CPUOfClient are seconds until all are Available.
	CPUAtSource float64 `json:"cpuAtSource"`
	CPUAtTarget float64 `json:"cpuAtTarget"`
	CPUOfClient float64 `json:"cpuOfClient"`
	// Replaced is how many Machines were created in addition to those that moved.
	Replaced int            `json:"replaced"`
	Steps    []Step         `json:"steps"`
	AtSource []planes.Count `json:"atSource"`
	AtTarget []planes.Count `json:"atTarget"`
}

// Step is a step that a move reported, and its cost until the next report.
type Step struct {
	Text        string  `json:"text"`
	Seconds     float64 `json:"seconds"`
	CPUAtSource float64 `json:"cpuAtSource"`
	CPUAtTarget float64 `json:"cpuAtTarget"`
	CPUOfClient float64 `json:"cpuOfClient"`
}

func summarise(took []time.Duration) Spread {
	slices.Sort(took)
	at := func(q float64) float64 { return round(took[int(q*float64(len(took)-1))].Seconds()) }
	return Spread{at(0.5), at(0.99), at(1)}
}

func round(x float64) float64 { return math.Round(x*1000) / 1000 }

// check compares the result with the limits.
func (r *Result) check(l Limits) error {
	var errs []error
	over := func(what string, got, limit float64) {
		if limit > 0 && got > limit {
			errs = append(errs, fmt.Errorf("%s: %v, limit %v", what, got, limit))
		}
	}
	over("seconds from start to ready", r.ReadySeconds, l.ReadySeconds)
	over("seconds to all clusters Available", r.WallSeconds, l.WallSeconds)
	over("API requests per cluster", r.RequestsPerCluster, l.RequestsPerCluster)
	over("CPU seconds per cluster", r.CPUSecondsPerCluster, l.CPUPerCluster)
	over("peak of resident memory in MiB", float64(r.PeakMiB), float64(l.PeakMiB))
	over("cores when idle", r.Idle.Cores, l.IdleCores)
	if l.NoIdleWrites && len(r.Idle.Writes) > 0 {
		errs = append(errs, fmt.Errorf("writes when idle: %v, want none", r.Idle.Writes))
	}
	if l.NoIdleWrites && r.Idle.Decisions > 0 {
		errs = append(errs, fmt.Errorf("decisions recorded when idle: %d, want none", r.Idle.Decisions))
	}
	over("seconds to install a provider", r.Install.Seconds, l.InstallSeconds)
	over("seconds from a deadline to the result", r.Health.LateSeconds, l.LateSeconds)
	over("API requests per unhealthy Machine", r.Health.RequestsPerMachine, l.RequestsPerUnhealthy)
	over("API requests per Machine updated in place", r.InPlace.RequestsPerMachine, l.RequestsPerUpdate)
	if n := r.InPlace.Replaced; n > 0 {
		errs = append(errs, fmt.Errorf("Machines made while others were updated in place: %d, want none", n)) // a kind's name
	}
	over("resident memory when idle in MiB", float64(r.Idle.MiB), float64(l.IdleMiB))
	over("CPU of a cluster to that of a plain one before", r.Plain.CPURatio, l.CPURatio)
	over("API requests that only a class-based cluster makes", r.Plain.RequestsOfTopology, l.RequestsOfTopology)
	over("applies per cluster for an edit of the class", r.ClassEdit.AppliesPerCluster, l.AppliesPerEdit)
	over("writes per cluster for an edit of the class", r.ClassEdit.WritesPerCluster, l.WritesPerEdit)
	over("conflicts per cluster", round(r.Conflicts/float64(r.Scenario.Clusters)), l.Conflicts)
	if l.NoneReplaced && r.MachinesReplaced > 0 {
		errs = append(errs, fmt.Errorf("machines replaced: %d, want none", r.MachinesReplaced))
	}
	if l.NoRestartWrites && len(r.Restart.Writes) > 0 {
		errs = append(errs, fmt.Errorf("writes of a restart: %v, want none", r.Restart.Writes))
	}
	over("seconds from restart to ready", r.Restart.ReadySeconds, l.RestartReadySeconds)
	over("CPU seconds of a restart", r.Restart.CPUSeconds, l.RestartCPUSeconds)
	over("seconds to all clusters deleted", r.Deletion.Seconds, l.DeleteSeconds)
	over("API requests to delete a cluster", r.Deletion.RequestsPerCluster, l.DeleteRequestsPerCluster)
	over("memory of a worker in MiB", float64(r.Containers.WorkerMiB), float64(l.WorkerMiB))
	over("memory of a control plane machine in MiB", float64(r.Containers.ControlPlaneMiB), float64(l.ControlPlaneMiB))
	over("disk of all machines in MiB", float64(r.Containers.DiskMiB), float64(l.MachinesDiskMiB))
	over("seconds to remove a machine", r.Containers.RemovalSeconds, l.RemovalSeconds)
	if p := r.Providers; p != nil {
		over("seconds to a provider Available", p.Slowest(), l.ProviderSeconds)
		over("memory of the first provider beyond its own in MiB", p.FirstMiB, l.ProviderMiB)
		over("memory of a further provider beyond its own in MiB", p.EachMiB, l.ProviderMiB)
		over("cores that idle providers cost", p.IdleCores, l.ProvidersIdleCores)
		over("milliseconds that a Service adds to a webhook", p.ServiceAdds(), l.ServiceMilliseconds)
		over("times the 99th percentile of requests with a Pod that forks", round(p.CrowdRatio()), l.CrowdRatio)
	}
	over("seconds to move all clusters", r.Move.Seconds, l.MoveSeconds)
	over("API requests to move an object", r.Move.RequestsPerObject, l.RequestsPerMoved)
	for _, look := range r.Looks {
		switch {
		case strings.HasPrefix(look.Command, "why "):
			over("seconds of "+look.Command, look.Seconds, l.WhySeconds)
		case look.shows():
			over("seconds of "+look.Command, look.Seconds, l.LookSeconds)
		}
	}
	if l.NoneReplaced && r.Move.Replaced != 0 {
		errs = append(errs, fmt.Errorf("machines made by the move: %d, want none", r.Move.Replaced))
	}
	over("seconds to all extensions discovered", r.Extensions.DiscoveredSeconds, l.ExtensionWarmUp)
	over("seconds from start to all extensions asked", r.Extensions.WarmUpSeconds, l.ExtensionWarmUp)
	return errors.Join(errs...)
}

// tableLooks prints the measured commands.
func (r *Result) tableLooks(row func(what, format string, args ...any)) {
	for _, l := range r.Looks {
		row(l.Command, "%.3f s, CPU %.3f s and %.3f s of the plane, %.1f requests, %d bytes", l.Seconds, l.CPUSeconds, l.PlaneCPUSeconds, l.Requests, l.Bytes)
	}
}

// table prints the result for people.
func (r *Result) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", what, fmt.Sprintf(format, args...))
	}
	lines := func(counts []planes.Count) {
		for _, c := range counts {
			row("", "%.0f %s %s", c.Count, c.Verb, c.Resource)
		}
	}
	s := r.Scenario
	row("scenario", "%s: %d clusters of %d+%d machines, %d in flight (0: all)", s.Name, s.Clusters, s.ControlPlane, s.Workers, s.InFlight)
	row("start to ready", "%.1f s", r.ReadySeconds)
	if s.Extensions > 0 {
		row("extensions", "%d, %d of them hanging; created in %.1f s, discovered after %.1f s, after a restart asked again within %.1f s of the start", s.Extensions, s.HangingExtensions, r.Extensions.CreateSeconds, r.Extensions.DiscoveredSeconds, r.Extensions.WarmUpSeconds)
	}
	row("create to all Available", "%.1f s (one: median %.1f, p99 %.1f, max %.1f)", r.WallSeconds, r.Clusters.Median, r.Clusters.P99, r.Clusters.Max)
	row("CPU", "%.1f s, %.2f per cluster", r.CPUSeconds, r.CPUSecondsPerCluster)
	row("peak memory", "%d MiB", r.PeakMiB)
	row("API requests", "%.0f, %.1f per cluster", r.Requests, r.RequestsPerCluster)
	row("writes", "%.0f, %.1f per cluster, %.0f conflicts", r.Writes, r.WritesPerCluster, r.Conflicts)
	row("machines", "%d created, %d replaced", r.MachinesCreated, r.MachinesReplaced)
	if p := r.Plain; s.Plain > 0 {
		row("plain, before", "%d in %.1f s, CPU %.2f s and %.1f requests per cluster; these take %.2f times the CPU", s.Plain, p.WallSeconds, p.CPUSecondsPerCluster, p.RequestsPerCluster, p.CPURatio)
	}
	if e := r.ClassEdit; s.Class {
		row("of the class", "%.1f requests", r.Plain.RequestsOfTopology)
		row("edit of the class", "%.1f s, per cluster %.2f applies, %.2f writes except status and events, %.2f s of CPU; %.0f conflicts", e.Seconds, e.AppliesPerCluster, e.WritesPerCluster, e.CPUSecondsPerCluster, e.Conflicts)
		lines(e.ByVerbAndResource)
	}
	if a := r.Addons; s.ResourceSets > 0 {
		row("add-ons", "%d applied in %.1f s, CPU %.1f s, %.0f requests, %.1f per cluster, %.0f conflicts", a.Applied, a.Seconds, a.CPUSeconds, a.Requests, a.RequestsPerCluster, a.Conflicts)
	}
	if i := r.Install; s.Definitions > 0 {
		row("installation", "%d definitions in %.1f s, CPU %.1f s, %.0f requests", s.Definitions, i.Seconds, i.CPUSeconds, i.Requests)
	}
	if i := r.Idle; i.Seconds > 0 {
		row("idle", "%.3f cores, %d MiB, %.0f requests, %.0f writes in %.0f s", i.Cores, i.MiB, i.Requests, total(i.Writes), i.Seconds)
		lines(i.Writes)
		row("decisions", "%d recorded, %d KiB, %d of them when idle", r.Decisions.Count, r.Decisions.KiB, i.Decisions)
	}
	if s.Containers {
		r.Containers.table(row)
	}
	r.Providers.Table(row)
	r.tableLooks(row)
	if h := r.Health; h.Machines > 0 {
		row("unhealthy", "%d machines, found at most %.1f s after their deadlines; %.1f requests each until deleted", h.Machines, h.LateSeconds, h.RequestsPerMachine)
		lines(h.ByVerbAndResource)
	}
	if u := r.InPlace; u.Machines > 0 {
		row("in place", "%d machines in %.1f s, %d replaced; %.1f requests and %.2f s of CPU each, %.0f conflicts", u.Machines, u.Seconds, u.Replaced, u.RequestsPerMachine, u.CPUSecondsPerMachine, u.Conflicts)
		lines(u.ByVerbAndResource)
	}
	if s.Restart {
		row("restart", "stop %.1f s, ready %.1f s, CPU %.1f s, peak %d MiB, %.0f writes", r.Restart.StopSeconds, r.Restart.ReadySeconds, r.Restart.CPUSeconds, r.Restart.PeakMiB, total(r.Restart.Writes))
		lines(r.Restart.Writes)
	}
	if s.Delete {
		d := r.Deletion
		row("delete all", "%.1f s, CPU %.1f s, %.0f requests, %.1f per cluster, %.0f conflicts", d.Seconds, d.CPUSeconds, d.Requests, d.RequestsPerCluster, d.Conflicts)
	}
	list := func(title string, counts []planes.Count) {
		row(title, "")
		for _, c := range counts {
			row("", "%.0f\t%s\t%s", c.Count, c.Verb, c.Resource)
		}
	}
	list("requests by verb and resource", r.ByVerbAndResource)
	if s.Move {
		r.Move.table(row, list)
	}
	if s.ResourceSets > 0 {
		list("those of the add-ons", r.Addons.ByVerbAndResource)
	}
	if s.Delete {
		list("those of the deletion", r.Deletion.ByVerbAndResource)
	}
	return w.Flush()
}

// table prints the move for people.
func (m *Move) table(row func(what, format string, args ...any), list func(title string, counts []planes.Count)) {
	row("move", "%d objects in %.1f s, Available after %.1f s; %.1f requests an object, %d machines replaced", m.Objects, m.Seconds, m.AvailableSeconds, m.RequestsPerObject, m.Replaced)
	row("CPU of the move", "%.1f s at the source, %.1f s at the target, %.1f s of the client", m.CPUAtSource, m.CPUAtTarget, m.CPUOfClient)
	for _, s := range m.Steps {
		row("", "%.1f s (CPU %.1f, %.1f, %.1f)\t%s", s.Seconds, s.CPUAtSource, s.CPUAtTarget, s.CPUOfClient, s.Text)
	}
	list("those of the move, to the source", m.AtSource)
	list("to the target", m.AtTarget)
}

func total(counts []planes.Count) (n float64) {
	for _, c := range counts {
		n += c.Count
	}
	return n
}
