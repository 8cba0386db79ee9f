// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/seed"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
)

// providerIDScheme is the start of the provider ID of machines of this provider.
const providerIDScheme = "local://"

// ProviderID implements localinfra.Backend.
func (b *Backend) ProviderID(machine types.NamespacedName, cluster string) string {
	return providerIDScheme + strings.Join([]string{machine.Namespace, cluster, machine.Name}, "/")
}

// Offer implements localinfra.Backend. A machine sees all processors of the host, and as
// much memory as it may use.
func (b *Backend) Offer(spec infrav1.LocalMachineSpec) localinfra.Offer {
	o := localinfra.Offer{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
			corev1.ResourcePods: *resource.NewQuantity(maxPods, resource.DecimalSI),
		},
		NodeInfo: infrav1.NodeInfo{Architecture: infrav1.Architecture(runtime.GOARCH), OperatingSystem: "linux"},
	}
	if limit := memoryOf(spec); limit > 0 {
		o.Capacity[corev1.ResourceMemory] = *resource.NewQuantity(limit, resource.BinarySI)
	}
	return o
}

// maxPods is kubelet's own default.
const maxPods = 110

// memoryOf is how many bytes a machine may use; 0 is no limit.
func memoryOf(spec infrav1.LocalMachineSpec) int64 {
	if spec.Container == nil {
		return 0
	}
	return int64(ptr.Deref(spec.Container.MemoryMiB, 0)) << 20
}

// EnsureMachine implements localinfra.Backend.
func (b *Backend) EnsureMachine(ctx context.Context, want localinfra.Machine) (localinfra.MachineStatus, error) {
	s, err := b.ensureMachine(ctx, want)
	if err != nil {
		return localinfra.MachineStatus{}, fmt.Errorf("container machine %s: %w", want.NamespacedName, b.full(err))
	}
	return s, nil
}

func (b *Backend) ensureMachine(ctx context.Context, want localinfra.Machine) (localinfra.MachineStatus, error) {
	m, err := b.machine(want)
	if err != nil {
		return localinfra.MachineStatus{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return localinfra.MachineStatus{}, fmt.Errorf("%w: it was deleted a moment ago", localinfra.ErrNotHere)
	}
	if !m.Created {
		if err := b.create(ctx, m, want); err != nil {
			return localinfra.MachineStatus{}, err
		}
	}
	now, err := b.o.Launcher.Inspect(m.name)
	if errors.Is(err, containers.ErrNotFound) {
		return localinfra.MachineStatus{}, fmt.Errorf("%w: its container %s is gone", localinfra.ErrNotHere, m.name)
	}
	if err != nil {
		return localinfra.MachineStatus{}, err
	}
	switch {
	case now.State == containers.Running || now.State == containers.Starting:
		m.ran = true
	case m.ran && now.State == containers.Stopped:
		m.coming.Store(false)
		// It was powered off, or ended for another reason, on purpose: it is not
		// started over and over.
		return localinfra.MachineStatus{}, fmt.Errorf("it stopped by itself with exit code %d%s: delete its Machine for another one, or start this program again to have it started", now.ExitCode, because(now.Message))
	default: // it is new, or the host was started again
		if err := b.room(m); err != nil {
			return localinfra.MachineStatus{}, err
		}
		if !m.Done && m.Failed == "" {
			m.Began = b.o.Clock.Now().UTC()
			if err := b.keep(m); err != nil {
				return localinfra.MachineStatus{}, err
			}
		}
		if err := b.o.Launcher.Start(ctx, m.name); err != nil {
			if _, lost := b.o.Images.Find(m.Image); lost != nil && errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("%w: %w", err, lost) // which has the remedy
			}
			return localinfra.MachineStatus{}, fmt.Errorf("start its container: %w", err)
		}
		m.ran = true
		if now, err = b.o.Launcher.Inspect(m.name); err != nil {
			return localinfra.MachineStatus{}, err
		}
	}
	return b.status(m, now)
}

// full adds to an error what can be done if it is that the disk is full.
func (b *Backend) full(err error) error {
	return diskspace.Explain(err, b.o.Dir, "such as by removing node images that no machine uses (\"capstan image list\"): it is tried again by itself")
}

const (
	// inotifyControlPlane and inotifyWorker are how many instances of inotify the
	// programs of a machine take, as counted of Kubernetes 1.36.
	inotifyControlPlane = 27
	inotifyWorker       = 13
)

// room returns why the host cannot run another machine. Without instances of
// inotify a machine starts, and its systemd, containerd or kubelet fails for a
// reason that is hard to find. Machines that are starting are counted whole: what
// they will use is not in use yet.
func (b *Backend) room(m *machine) error {
	if b.o.Room == nil {
		return nil
	}
	need := m.instances()
	b.mu.Lock()
	for _, other := range b.byName {
		if other.coming.Load() && other != m {
			need += other.instances()
		}
	}
	b.mu.Unlock()
	if err := b.o.Room(need); err != nil {
		return fmt.Errorf("start its container: %w", err)
	}
	m.coming.Store(true)
	return nil
}

// instances are those of inotify that it takes.
func (m *machine) instances() int {
	if m.ControlPlane { // which never changes
		return inotifyControlPlane
	}
	return inotifyWorker
}

func because(message string) string {
	if message == "" {
		return ""
	}
	return ", " + message
}

// machine finds what is known of a machine, or creates an entry for it.
func (b *Backend) machine(want localinfra.Machine) (*machine, error) {
	if want.Namespace == "" || want.Name == "" || want.Cluster == "" {
		return nil, errors.New("its namespace, name and cluster are needed")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, localinfra.ErrClosed
	}
	c := b.clusterOf(want)
	if c == nil {
		return nil, localinfra.ErrNoCluster
	}
	if c.endpoint == nil {
		return nil, localinfra.ErrOpening
	}
	providerID := b.idOf(want)
	name := containerName(want.Name, c.ID, providerID)
	if m := b.byName[name]; m != nil {
		return m, nil
	}
	if want.Provisioned {
		return nil, fmt.Errorf("%w: nothing of it is in %s", localinfra.ErrNotHere, b.o.Dir)
	}
	if f := want.BootstrapFormat; f != "" && f != "cloud-config" {
		return nil, fmt.Errorf("its bootstrap data is of format %s, and container machines run cloud-config alone: set spec.format of the KubeadmConfig to cloud-config", f)
	}
	taken := map[netip.Addr]bool{}
	for _, other := range b.byName {
		taken[other.Address] = true
	}
	address, err := freeAddress(b.subnet, taken)
	if err != nil {
		return nil, err
	}
	m := &machine{name: name, machineRecord: machineRecord{
		Namespace: want.Namespace, Name: want.Name, Cluster: want.Cluster, ClusterID: c.ID, ProviderID: providerID, ControlPlane: want.ControlPlane,
		Address: address, MachineID: random(), BootID: uuid(random()),
	}}
	b.byName[name] = m
	b.setMembers(c)
	return m, nil
}

// idOf is the provider ID of a machine.
func (b *Backend) idOf(m localinfra.Machine) string {
	return cmp.Or(m.Spec.ProviderID, b.ProviderID(m.NamespacedName, m.Cluster))
}

// clusterOf finds the cluster of a machine: by identity or, where that is not
// known, by name. Called with the lock.
func (b *Backend) clusterOf(m localinfra.Machine) *cluster {
	if m.ClusterID != "" {
		return b.clusters[m.ClusterID]
	}
	for _, c := range b.clusters {
		if c.Namespace == m.Namespace && c.Name == m.Cluster {
			return c
		}
	}
	return nil
}

// random are 128 unique bits, in hexadecimal digits.
func random() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // it never fails
	return hex.EncodeToString(raw)
}

func uuid(digits string) string {
	return strings.Join([]string{digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]}, "-")
}

// create creates all that a machine starts with. What an earlier try has left is
// created again: nothing of it has run. Called with the machine's lock.
func (b *Backend) create(ctx context.Context, m *machine, want localinfra.Machine) (err error) {
	if len(want.BootstrapData) == 0 {
		return errors.New("it has no bootstrap data")
	}
	if want.Version == "" {
		return errors.New("its Machine names no version of Kubernetes: set spec.version")
	}
	image, err := b.o.Images.Find(want.Version)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.undo(context.WithoutCancel(ctx), m, image))
		}
	}()
	if err := image.Use(m.name); err != nil {
		return fmt.Errorf("use node image %s: %w", image.ID, err)
	}
	folder := b.folder(m.name)
	if err := b.o.Launcher.Remove(ctx, m.name); err != nil {
		return fmt.Errorf("remove what an earlier try has left: %w", err)
	}
	b.discard(m.name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	m.Image = image.ID
	if err := b.keep(m); err != nil {
		return err
	}
	if err := b.writeFiles(m, want, image); err != nil {
		return fmt.Errorf("make its files: %w", err)
	}
	if err := b.o.Launcher.Create(ctx, b.spec(m, want, image)); err != nil {
		return fmt.Errorf("make its container: %w", err)
	}
	m.Created = true
	if err := b.keep(m); err != nil {
		m.Created = false
		return err
	}
	return nil
}

// undo removes what was created of a machine whose creation failed. Called with its
// lock.
func (b *Backend) undo(ctx context.Context, m *machine, image Image) error {
	m.Image = ""
	err := b.o.Launcher.Remove(ctx, m.name)
	b.discard(m.name)
	if err := errors.Join(err, image.Release(m.name)); err != nil {
		return fmt.Errorf("remove what was made of it: %w", err)
	}
	return nil
}

// seeded is a machine in the form of package seed.
func (m *machine) seeded(want localinfra.Machine) seed.Machine {
	return seed.Machine{
		Instance: m.name, Name: m.Name, ProviderID: m.ProviderID, FailureDomain: want.FailureDomain,
		Address: m.Address, MachineID: m.MachineID, BootID: m.BootID, Memory: memoryOf(want.Spec),
	}
}

// writeFiles writes the files of a machine.
func (b *Backend) writeFiles(m *machine, want localinfra.Machine, image Image) error {
	root, inVar := filepath.Join(b.folder(m.name), rootDir), filepath.Join(b.folder(m.name), varDir)
	if err := image.MakeVar(inVar); err != nil {
		return err
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(root, 0o755); err != nil { // it is / in the machine
		return err
	}
	data, err := seed.NoCloud(m.seeded(want), want.BootstrapData)
	if err != nil {
		return err
	}
	return errors.Join(seed.Write(root, seed.Root(b.o.Host, m.seeded(want))), seed.Write(inVar, data))
}

// powerOff is SIGRTMIN+3, on which systemd powers off.
const powerOff = 37

// spec is the container of a machine.
func (b *Backend) spec(m *machine, want localinfra.Machine, image Image) containers.Spec {
	b.mu.Lock()
	subnet := b.subnet
	b.mu.Unlock()
	s := containers.Spec{
		Name:     m.name,
		Labels:   map[string]string{"namespace": m.Namespace, "machine": m.Name, "cluster": m.Cluster},
		Root:     []string{filepath.Join(b.folder(m.name), rootDir), image.Root},
		Mounts:   []containers.Mount{{Source: filepath.Join(b.folder(m.name), varDir), Target: "/var"}},
		Shadows:  seed.Shadows(b.o.Host, m.seeded(want)),
		Hostname: m.Name,
		Args:     []string{"/sbin/init", "--log-target=console", "--show-status=true"},
		// systemd leaves hardware alone where it finds itself in a container.
		Env:        []string{"container=capstan"},
		StopSignal: powerOff,
		Memory:     memoryOf(want.Spec),
		Network:    &containers.Attachment{Network: networkName, Address: netip.PrefixFrom(m.Address, subnet.Bits()), Gateway: gatewayOf(subnet)},
	}
	if c := want.Spec.Container; c != nil {
		s.MilliCPU = int64(ptr.Deref(c.MilliCPU, 0))
	}
	return s
}

// DeleteMachine implements localinfra.Backend.
func (b *Backend) DeleteMachine(ctx context.Context, which localinfra.Machine) error {
	b.mu.Lock()
	var m *machine
	if c := b.clusterOf(which); c != nil {
		m = b.byName[containerName(which.Name, c.ID, b.idOf(which))]
	}
	b.mu.Unlock()
	if m == nil {
		return nil
	}
	if err := b.remove(ctx, m); err != nil {
		return fmt.Errorf("delete container machine %s: %w", which.NamespacedName, err)
	}
	return nil
}

// remove ends a machine and removes all its files. Its record is removed before its
// other files: a folder without one is removed at the next start.
func (b *Backend) remove(ctx context.Context, m *machine) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return nil
	}
	if m.watched != nil {
		m.watched()
		m.watched = nil
	}
	if err := b.o.Launcher.Remove(ctx, m.name); err != nil {
		return err
	}
	if m.Image != "" {
		// An image that no longer exists is not in use.
		if image, err := b.o.Images.Find(m.Image); err == nil {
			if err := image.Release(m.name); err != nil {
				return fmt.Errorf("release node image %s: %w", m.Image, err)
			}
		}
	}
	if err := removeFile(filepath.Join(b.folder(m.name), machineFile)); err != nil {
		return err
	}
	b.discard(m.name)
	m.gone = true
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byName, m.name)
	if c := b.clusters[m.ClusterID]; c != nil {
		b.setMembers(c)
	}
	return nil
}
