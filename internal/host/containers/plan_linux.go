// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"cmp"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/containers/network"
	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

// The parts of the folder.
const (
	identityFile  = "identity"
	lockFile      = "lock"
	containersDir = "containers"
	networksDir   = "networks"
	specFile      = "spec.json"
	upperDir      = "upper"
	workDir       = "work"
	rootDir       = "root" // where the root is assembled; empty on the host
	shadowsDir    = "shadows"
	newPrefix     = ".new-" // a container that is being created
	oldPrefix     = ".old-" // one that is being removed
)

// status returns the status of a container from its spec, the last state that its
// supervisor wrote, and whether the supervisor is alive.
func status(spec Spec, st supervisor.State, alive bool, hostBoot string) Status {
	s := Status{Spec: spec, Boots: st.Boots, Started: st.Started}
	switch {
	case alive && st.Running:
		s.State, s.PID = Running, st.PID
	case alive:
		s.State = Starting
	case st.Ended:
		s.State, s.Ended, s.ExitCode, s.Message = Stopped, st.EndedAt, st.ExitCode, st.Message
	case st.HostBoot == "":
		s.State = Created
	case st.HostBoot != hostBoot:
		s.State, s.Message = Stopped, "the host was started again"
	default:
		s.State, s.Message = Stopped, "its supervisor was ended, and it with it"
	}
	return s
}

func shadowPaths(s Spec) []string { return slices.Sorted(maps.Keys(s.Shadows)) }

// host is the input of a plan in addition to the spec.
type host struct {
	folder  string // of the container
	groups  cgroups.Host
	devices []string
}

// rootOf returns the root for a spec.
func rootOf(s Spec, h host) rootfs.Root {
	r := rootfs.Machine{
		Top: filepath.Join(h.folder, rootDir), Layers: s.Root, Upper: filepath.Join(h.folder, upperDir), Work: filepath.Join(h.folder, workDir),
		Devices: h.devices, Unified: h.groups.Unified, Shadows: map[string]string{},
	}
	for _, m := range s.Mounts {
		b := rootfs.Step{Op: rootfs.Bind, Source: m.Source, Target: m.Target, Below: true}
		if m.ReadOnly {
			b.Flags = rootfs.RO
		}
		r.Binds = append(r.Binds, b)
	}
	for i, p := range shadowPaths(s) {
		r.Shadows[p] = filepath.Join(h.folder, shadowsDir, strconv.Itoa(i))
	}
	for _, t := range h.groups.Hierarchies {
		r.Groups = append(r.Groups, rootfs.Group{Name: t.Name(), Type: t.Type, Data: t.Data})
	}
	return r.Root()
}

// runOf returns what the supervisor of a container runs.
func runOf(s Spec, h host, group string, o Options) supervisor.Run {
	const sigterm = 15
	inside := path.Join(group, cgroups.Container)
	return supervisor.Run{
		Groups: h.groups.Dirs(inside), Born: h.groups.Unified2(inside),
		StopSignal: cmp.Or(s.StopSignal, sigterm), ConsoleBytes: o.ConsoleBytes,
		First: containerproc.Plan{
			Hostname: cmp.Or(s.Hostname, s.Name), Root: rootOf(s, h), Args: s.Args, Env: environment(s.Env), Rights: containerproc.Rights{Machine: true},
		},
	}
}

func environment(env []string) []string {
	if slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		return env
	}
	return append(slices.Clone(env), "PATH="+containerproc.SearchPath)
}

// pairOf returns the network connection of a container; nil if it has none.
func pairOf(s Spec, n network.Names) *network.Pair {
	a := s.Network
	if a == nil {
		return nil
	}
	p := &network.Pair{
		Host: n.Link(s.Name), Bridge: n.Bridge(a.Network), Hardware: n.Hardware(n.Link(s.Name)).String(),
		Address: a.Address, Gateway: a.Gateway,
	}
	for _, r := range a.Routes {
		p.Routes = append(p.Routes, network.Route(r))
	}
	return p
}

// groupOf returns the control group of a container. If systemd manages the whole
// hierarchy, it is a scope that systemd assigns.
func groupOf(identity, name string, scope bool) string {
	if scope {
		return path.Join("/", scopeSlice, scopeOf(identity, name))
	}
	return path.Join(groupBase(identity), name)
}

// scopeSlice is the part of systemd's tree that scopes of containers are in.
const scopeSlice = cgroups.Prefix + ".slice"

func groupBase(identity string) string { return "/" + cgroups.Prefix + "-" + identity }

func scopeOf(identity, name string) string {
	return cgroups.Prefix + "-" + identity + "-" + name + ".scope"
}

// containerOfScope returns the container of a scope. ok is false if it is not one
// of the folder.
func containerOfScope(identity, scope string) (name string, ok bool) {
	name, ok = strings.CutPrefix(scope, cgroups.Prefix+"-"+identity+"-")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, ".scope")
}
