// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// Scenario defines what to create and how long to measure.
type Scenario struct {
	// Name appears in the report.
	Name string `json:"name"`
	// Clusters to create, each with ControlPlane and Workers machines.
	Clusters     int   `json:"clusters"`
	ControlPlane int32 `json:"controlPlane"`
	Workers      int32 `json:"workers"`
	// Pool makes the workers those of a MachinePool.
	Pool bool `json:"pool"`
	// Containers makes the machines containers of this host instead of simulated ones,
	// which needs root and a folder of node images. Their cost is measured in steady
	// state, and how long it takes to delete one.
	Containers bool `json:"containers"`
	// Class creates the clusters from a ClusterClass, and edits it when they exist.
	Class bool `json:"class"`
	// Plain is how many clusters without a class are created before, on a plane of their
	// own, for comparison; with Class as many as Clusters if it is 0.
	Plain int `json:"plain"`
	// Extensions is how many ExtensionConfigs are registered before the clusters are
	// created, of which the first HangingExtensions never answer.
	Extensions        int `json:"extensions"`
	HangingExtensions int `json:"hangingExtensions"`
	// ResourceSets is how many ClusterResourceSets are applied to the clusters when they
	// exist.
	ResourceSets int `json:"resourceSets"`
	// Definitions is how many CustomResourceDefinitions a provider has that is installed
	// when the clusters exist.
	Definitions int `json:"definitions"`
	// HealthTimeoutSeconds is how long a Node may be unready by the MachineHealthCheck
	// that each cluster gets for its workers; 0 creates none.
	HealthTimeoutSeconds int `json:"healthTimeoutSeconds"`
	// Unhealthy is how many workers of each cluster have their Nodes become unready
	// together, after the idle window.
	Unhealthy int `json:"unhealthy"`
	// InPlace has the workers updated in place by an extension.
	InPlace bool `json:"inPlace"`
	// OldWatcher has a client watch the Machines at v1beta1 while clusters are created.
	OldWatcher bool `json:"oldWatcher"`
	// InFlight is how many clusters may be in creation at the same time; 0 means all.
	InFlight int `json:"inFlight"`
	// KubernetesVersion of the clusters.
	KubernetesVersion string `json:"kubernetesVersion"`
	// TimeoutSeconds is how long all of it may take.
	TimeoutSeconds int `json:"timeoutSeconds"`
	// SettleSeconds is the delay before the idle window.
	SettleSeconds int `json:"settleSeconds"`
	// IdleSeconds is the length of the idle window; 0 leaves it out.
	IdleSeconds int `json:"idleSeconds"`
	// Providers is how many the plane runs in the end: the cost of the first and of each
	// further one is measured, and that of all when idle.
	Providers int `json:"providers"`
	// Restart stops the plane, starts it again and counts what it writes.
	Restart bool `json:"restart"`
	// Delete deletes all clusters at the end.
	Delete bool `json:"delete"`
	// Move moves all clusters to another plane of the host at the end.
	Move bool `json:"move"`
	// Look measures the commands that show a cluster and its machines.
	Look bool `json:"look"`
	// Limits make the run fail when a figure of the result exceeds its limit.
	Limits Limits `json:"limits"`
}

// Limits are upper bounds; 0 means none.
type Limits struct {
	ReadySeconds             float64 `json:"readySeconds"`
	WallSeconds              float64 `json:"wallSeconds"`
	RequestsPerCluster       float64 `json:"requestsPerCluster"`
	CPUPerCluster            float64 `json:"cpuSecondsPerCluster"`
	PeakMiB                  int64   `json:"peakMiB"`
	IdleCores                float64 `json:"idleCores"`
	IdleMiB                  int64   `json:"idleMiB"`
	NoIdleWrites             bool    `json:"noIdleWrites"`
	RestartReadySeconds      float64 `json:"restartReadySeconds"`
	RestartCPUSeconds        float64 `json:"restartCPUSeconds"`
	DeleteSeconds            float64 `json:"deleteSeconds"`
	DeleteRequestsPerCluster float64 `json:"deleteRequestsPerCluster"`
	ExtensionWarmUp          float64 `json:"extensionWarmUpSeconds"`
	InstallSeconds           float64 `json:"installSeconds"`
	LateSeconds              float64 `json:"lateSeconds"`
	RequestsPerUnhealthy     float64 `json:"requestsPerUnhealthy"`
	RequestsPerUpdate        float64 `json:"requestsPerUpdate"`
	CPURatio                 float64 `json:"cpuRatio"`
	RequestsOfTopology       float64 `json:"requestsOfTopology"`
	AppliesPerEdit           float64 `json:"appliesPerEdit"`
	WritesPerEdit            float64 `json:"writesPerEdit"`
	Conflicts                float64 `json:"conflictsPerCluster"`
	MoveSeconds              float64 `json:"moveSeconds"`
	RequestsPerMoved         float64 `json:"requestsPerMoved"`
	LookSeconds              float64 `json:"lookSeconds"`
	WhySeconds               float64 `json:"whySeconds"`
	WorkerMiB                int64   `json:"workerMiB"`
	ControlPlaneMiB          int64   `json:"controlPlaneMiB"`
	MachinesDiskMiB          int64   `json:"machinesDiskMiB"`
	RemovalSeconds           float64 `json:"removalSeconds"`
	ProviderSeconds          float64 `json:"providerSeconds"`
	ProviderMiB              float64 `json:"providerMiB"`
	ProvidersIdleCores       float64 `json:"providersIdleCores"`
	ServiceMilliseconds      float64 `json:"serviceMilliseconds"`
	CrowdRatio               float64 `json:"crowdRatio"`
	NoRestartWrites          bool    `json:"noRestartWrites"`
	NoneReplaced             bool    `json:"noneReplaced"`
}

func load(path string) (*Scenario, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read scenario: %w", err)
	}
	s := &Scenario{Name: path, Clusters: 1, ControlPlane: 1, KubernetesVersion: "v1.36.3", TimeoutSeconds: 600, SettleSeconds: 5}
	if err := yaml.UnmarshalStrict(b, s); err != nil {
		return nil, fmt.Errorf("read scenario %s: %w", path, err)
	}
	if s.Clusters < 1 || s.ControlPlane < 1 || s.Workers < 0 || s.InFlight < 0 || s.ResourceSets < 0 || s.Plain < 0 {
		return nil, fmt.Errorf("scenario %s: clusters and controlPlane must be at least 1, workers, inFlight, resourceSets and plain at least 0", path)
	}
	if s.HealthTimeoutSeconds < 0 || s.Unhealthy < 0 || s.Unhealthy > int(s.Workers) || s.Unhealthy > 0 && s.HealthTimeoutSeconds == 0 {
		return nil, fmt.Errorf("scenario %s: unhealthy must be from 0 to workers, and needs healthTimeoutSeconds", path)
	}
	if s.InPlace && s.Pool {
		return nil, fmt.Errorf("scenario %s: the machines of a pool are not updated in place: leave one of inPlace and pool out", path)
	}
	if s.Class && (s.Pool || s.InPlace) {
		return nil, fmt.Errorf("scenario %s: the class has neither pools nor updates in place: leave pool and inPlace out, or class", path)
	}
	if s.Containers && (s.Pool || s.Class || s.InPlace || s.Move || s.Unhealthy > 0) {
		return nil, fmt.Errorf("scenario %s: pool, class, inPlace, move and unhealthy are of simulated machines: leave them out, or containers", path)
	}
	if s.Move && (s.Restart || s.Delete || s.Class) {
		return nil, fmt.Errorf("scenario %s: after a move nothing is left to restart with or to delete, and only plain clusters move: leave restart, delete and class out", path)
	}
	if s.Providers < 0 || s.Providers > 0 && s.IdleSeconds <= 0 {
		return nil, fmt.Errorf("scenario %s: providers must be at least 0, and need idleSeconds", path)
	}
	if s.HangingExtensions < 0 || s.Extensions < s.HangingExtensions {
		return nil, fmt.Errorf("scenario %s: hangingExtensions must be from 0 to extensions", path)
	}
	if s.Class {
		s.Plain = cmp.Or(s.Plain, s.Clusters)
	}
	return s, nil
}

// resize sets another number of clusters, and of plain ones before them if these were as
// many: the fixed cost of a plane is then shared by fewer clusters on both sides.
func (s *Scenario) resize(clusters int) {
	if s.Plain == s.Clusters {
		s.Plain = clusters
	}
	s.Clusters = clusters
}

func (s *Scenario) timeout() time.Duration { return seconds(s.TimeoutSeconds) }

func (s *Scenario) machines() int { return s.Clusters * int(s.ControlPlane+s.Workers) }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
