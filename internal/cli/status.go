// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
)

const (
	// statusTimeout is when a plane counts as one that does not answer: scripts and
	// users wait for the command.
	statusTimeout = 5 * time.Second

	// The exit statuses of status; the first is that of init scripts.
	noneRuns    = 3
	noneAnswers = 4
)

type statusOptions struct {
	dir, output string
	machines    string // where simulated ones are kept, unless a running plane reports another folder
}

// planeStatus is what status -o json prints: a contract.
type planeStatus struct {
	State      string `json:"state"` // Stopped, Starting, Running, Unreachable or Stopping
	DataDir    string `json:"dataDir"`
	DiskBytes  int64  `json:"diskBytes"`
	Kubeconfig string `json:"kubeconfig,omitempty"`

	PID       int       `json:"pid,omitempty"`
	Version   string    `json:"version,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Address   string    `json:"address,omitempty"`
	Providers []string  `json:"providers,omitempty"`
	// MetricsAddress and PprofAddress are where metrics and profiles are served.
	MetricsAddress string `json:"metricsAddress,omitempty"`
	PprofAddress   string `json:"pprofAddress,omitempty"`
	// FeatureGates are as the flag has them: each, with whether it is on.
	FeatureGates string   `json:"featureGates,omitempty"`
	EtcdServers  []string `json:"etcdServers,omitempty"`
	MemoryBytes  int64    `json:"memoryBytes,omitempty"`
	// Planes are those that share EtcdServers, the one that leads first.
	Planes []sharingPlane `json:"planes,omitempty"`

	SimulatedDir string `json:"simulatedDir,omitempty"`
	// SimulatedClusters are those in SimulatedDir, of all planes, and
	// IdleSimulatedClusters those of them that no plane runs.
	SimulatedClusters     int `json:"simulatedClusters,omitempty"`
	IdleSimulatedClusters int `json:"idleSimulatedClusters,omitempty"`

	Kubernetes string `json:"kubernetes,omitempty"`
	Clusters   *int64 `json:"clusters,omitempty"`
	// Pods are those of providers, nil if there are none.
	Pods    *podsStatus `json:"pods,omitempty"`
	Problem string      `json:"problem,omitempty"`
}

// sharingPlane is one of the planes that share a store.
type sharingPlane struct {
	Name    string    `json:"name"`
	Host    string    `json:"host"`
	Dir     string    `json:"dir"`
	Address string    `json:"address"`
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since"`
	Leads   bool      `json:"leads"`
	// LeadsSince is when it became leader, and Gone whether it was lost within a
	// day.
	LeadsSince time.Time `json:"leadsSince,omitzero"`
	Gone       bool      `json:"gone,omitempty"`
}

func newStatus(env *Env, run func(context.Context, *Env, statusOptions) error) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what runs on the data directory",
		Long: `Show what runs on the data directory. The exit status reports it, too:

  0  a management plane runs and answers
  1  unknown
  3  none runs
  4  one runs that does not answer: it starts, it stops, or it is stuck`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd); err != nil {
				return err
			}
			if err := command.CheckOutput(o.output, "json"); err != nil {
				return err
			}
			o.machines = env.DefaultSimulatedDir()
			return run(cmd.Context(), env, o)
		},
	}
	dataDirFlag(cmd, env, &o.dir)
	command.OutputFlag(cmd, &o.output, "a table", "json")
	return cmd
}

func runStatus(ctx context.Context, env *Env, o statusOptions) error {
	s, err := observe(ctx, datadir.Dir(o.dir), o.machines)
	if err != nil {
		return err
	}
	if err := s.print(env, o.output); err != nil {
		return err
	}
	switch s.State {
	case "Running":
		return nil
	case "Stopped":
		return command.StatusError{Status: noneRuns, Cause: fmt.Errorf("no management plane runs on %s: start one with \"capstan up --data-dir %[1]s\"", o.dir)}
	}
	return command.StatusError{Status: noneAnswers, Cause: fmt.Errorf("the management plane on %s does not answer: it is %s", o.dir, strings.ToLower(s.State))}
}

func (s *planeStatus) print(env *Env, output string) error {
	if output == "json" {
		return env.PrintObject(s, "json")
	}
	t := env.Table()
	for _, line := range s.table(time.Now()) {
		name := line[0]
		if name != "" {
			name += ":"
		}
		t.Row(name, line[1])
	}
	return t.Flush()
}

func observe(ctx context.Context, dir datadir.Dir, machines string) (*planeStatus, error) {
	s := &planeStatus{State: "Stopped", DataDir: string(dir)}
	h, running, err := datadir.Running(dir)
	if err != nil {
		return nil, err
	}
	if s.DiskBytes, err = datadir.Size(dir); err != nil {
		return nil, err
	}
	s.SimulatedDir = cmp.Or(h.Flags["simulated-dir"], machines, dir.Simulated())
	if s.SimulatedClusters, s.IdleSimulatedClusters, err = statedir.Count(s.SimulatedDir); err != nil {
		return nil, fmt.Errorf("count simulated clusters: %w", err)
	}
	s.Problem = h.Problem
	if !running {
		return s, nil
	}
	s.State, s.PID, s.Version, s.Since, s.Address = "Starting", h.PID, h.Version, h.Since, h.Address
	s.Providers, s.EtcdServers, s.MemoryBytes = h.Providers, h.EtcdServers, residentMemory(h.PID)
	s.MetricsAddress, s.PprofAddress = h.Diagnostics["metrics"], h.Diagnostics["profiles"]
	s.FeatureGates = h.Flags["feature-gates"]
	if h.Problem != "" {
		s.State = "Stopping"
		return s, nil
	}
	if h.Ready.IsZero() {
		return s, nil
	}
	s.State, s.Kubeconfig = "Running", dir.Kubeconfig()
	if err := s.ask(ctx); err != nil {
		s.State, s.Problem = "Unreachable", err.Error()
	}
	return s, nil
}

// ask fills in what only the API server can report.
func (s *planeStatus) ask(ctx context.Context) error {
	cfg, version, err := askVersion(s.Kubeconfig)
	if err != nil {
		return err
	}
	s.Kubernetes = version
	if len(s.EtcdServers) > 0 {
		if s.Planes, err = askPlanes(ctx, cfg); err != nil {
			return err
		}
	}
	m, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	list, err := m.Resource(clusterv1.GroupVersion().WithResource("clusters")).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		list, err = &metav1.PartialObjectMetadataList{}, nil // Cluster API does not run, here or in a Pod
	}
	if err != nil {
		return fmt.Errorf("count clusters: %w", err)
	}
	n := int64(len(list.Items))
	if more := list.RemainingItemCount; more != nil {
		n += *more
	}
	s.Clusters = &n
	s.Pods, err = askPods(ctx, cfg)
	return err
}

// askPlanes reads from the API server which planes share its store.
func askPlanes(ctx context.Context, cfg *rest.Config) (all []sharingPlane, err error) {
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	b, err := d.RESTClient().Get().AbsPath("/capstan/members").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("list the planes that share the store: %w", err)
	}
	return all, nil
}

// askVersion reads the Kubernetes version of the API server of a kubeconfig.
func askVersion(kubeconfig string) (*rest.Config, string, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, "", fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.Timeout, cfg.WarningHandler = statusTimeout, rest.NoWarnings{}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, "", err
	}
	v, err := d.ServerVersion()
	if err != nil {
		return nil, "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return cfg, v.GitVersion, nil
}

func (s *planeStatus) table(now time.Time) [][2]string {
	lines := [][2]string{{"State", s.State}, {"Data directory", s.DataDir}, {"On disk", mebibytes(s.DiskBytes)}}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, [2]string{name, value})
		}
	}
	if s.SimulatedClusters > 0 {
		add("Simulated clusters", fmt.Sprintf("%d, %d of which no plane runs, in %s", s.SimulatedClusters, s.IdleSimulatedClusters, s.SimulatedDir))
	}
	add("Problem", s.Problem)
	if s.State == "Stopped" {
		return lines
	}
	add("Process", fmt.Sprint(s.PID))
	add("Since", fmt.Sprintf("%s (%s)", s.Since.Format(time.RFC3339), now.Sub(s.Since).Round(time.Second)))
	add("Version", s.Version)
	if s.Address != "" {
		add("API server", "https://"+s.Address)
	}
	add("Metrics", s.MetricsAddress)
	add("Profiles", s.PprofAddress)
	add("Kubernetes", s.Kubernetes)
	add("Kubeconfig", s.Kubeconfig)
	add("Providers", strings.Join(s.Providers, ", "))
	add("Feature gates", s.FeatureGates)
	etcd := "embedded"
	if len(s.EtcdServers) > 0 {
		etcd = strings.Join(s.EtcdServers, ", ")
	}
	add("Etcd", etcd)
	for i, p := range s.Planes {
		name := ""
		if i == 0 {
			name = "Planes"
		}
		lines = append(lines, [2]string{name, p.line(now)})
	}
	if s.MemoryBytes > 0 {
		add("Memory", mebibytes(s.MemoryBytes))
	}
	if s.Clusters != nil {
		add("Clusters", fmt.Sprint(*s.Clusters))
	}
	return append(lines, s.Pods.lines()...)
}

func (p sharingPlane) line(now time.Time) string {
	text := fmt.Sprintf("https://%s on %s in %s", p.Address, p.Host, p.Dir)
	switch {
	case p.Gone:
		text += ", gone"
	case p.Leads && !p.LeadsSince.IsZero():
		text += fmt.Sprintf(", leads since %s (%s)", p.LeadsSince.Format(time.RFC3339), now.Sub(p.LeadsSince).Round(time.Second))
	case p.Leads:
		text += ", leads"
	}
	return text
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<19)>>20) }

// residentMemory is what a process occupies, in bytes; 0 where the system does not
// report it.
func residentMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
