// SPDX-License-Identifier: Apache-2.0

// Package updateextension is the runtime extension that updates container machines of
// this host to another version of Kubernetes without replacing them. For other
// machines its responses change nothing, so that other extensions can update them.
package updateextension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/extension/mutation"
	"github.com/capstan-dev/capstan/extension/server"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
)

// Name is that of the ExtensionConfig.
const Name = "capstan-container-machines"

// again is the number of seconds until the next request about an update.
const again = 3

// can is what changes without a new machine. The control plane updates kubeadm's
// settings of the whole cluster, feature gates and CoreDNS; their fields here are
// for machines that are created later.
var can = mutation.InPlace{Machine: []string{"version"}, Bootstrap: []string{"clusterConfiguration.featureGates", "clusterConfiguration.dns"}}

// New returns the extension, which listens on the loopback interface. It reads Machines
// with known, since every process of the host can send requests.
func New(updater localinfra.Updater, known client.Reader, o server.Options) (*server.Server, error) {
	o.Address = "127.0.0.1:0"
	s, err := server.New(o)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(
		server.Handle(s, hooksv1.CanUpdateMachine, canUpdateMachine),
		server.Handle(s, hooksv1.CanUpdateMachineSet, canUpdateMachineSet),
		server.Handle(s, hooksv1.UpdateMachine, func(ctx context.Context, req *hooksv1.UpdateMachineRequest, resp *hooksv1.UpdateMachineResponse) error {
			return update(ctx, updater, known, req, resp)
		}),
	)
}

func canUpdateMachine(ctx context.Context, req *hooksv1.CanUpdateMachineRequest, resp *hooksv1.CanUpdateMachineResponse) error {
	var m infrav1.LocalMachine
	ours, err := decode(req.Desired.InfrastructureMachine, "LocalMachine", &m)
	if err != nil || !ours || m.Spec.Container == nil || !oneStep(req.Current.Machine.Spec.Version, req.Desired.Machine.Spec.Version) {
		return err
	}
	return can.CanUpdateMachine(ctx, req, resp)
}

func canUpdateMachineSet(ctx context.Context, req *hooksv1.CanUpdateMachineSetRequest, resp *hooksv1.CanUpdateMachineSetResponse) error {
	var t infrav1.LocalMachineTemplate
	ours, err := decode(req.Desired.InfrastructureMachineTemplate, "LocalMachineTemplate", &t)
	from, to := req.Current.MachineSet.Spec.Template.Spec, req.Desired.MachineSet.Spec.Template.Spec
	if err != nil || !ours || t.Spec.Template.Spec.Container == nil || !oneStep(from.Version, to.Version) {
		return err
	}
	return can.CanUpdateMachineSet(ctx, req, resp)
}

// decode decodes an object if it is of one of our kinds.
func decode(raw runtime.RawExtension, kind string, into any) (ours bool, err error) {
	var what struct{ APIVersion, Kind string }
	if len(raw.Raw) == 0 {
		return false, nil
	}
	if err := json.Unmarshal(raw.Raw, &what); err != nil {
		return false, fmt.Errorf("read the infrastructure of the request: %w", err)
	}
	if what.Kind != kind || !strings.HasPrefix(what.APIVersion, infrav1.GroupVersion().Group+"/") {
		return false, nil
	}
	if err := json.Unmarshal(raw.Raw, into); err != nil {
		return false, fmt.Errorf("read %s of the request: %w", kind, err)
	}
	return true, nil
}

// oneStep reports whether kubeadm supports an update between two versions: to a
// later one of the same minor, or of the next.
func oneStep(from, to string) bool {
	a, err1 := version.ParseSemantic(from)
	b, err2 := version.ParseSemantic(to)
	return err1 == nil && err2 == nil && b.AtLeast(a) && a.Major() == b.Major() && b.Minor() <= a.Minor()+1
}

func update(ctx context.Context, updater localinfra.Updater, known client.Reader, req *hooksv1.UpdateMachineRequest, resp *hooksv1.UpdateMachineResponse) error {
	var m infrav1.LocalMachine
	ours, err := decode(req.Desired.InfrastructureMachine, "LocalMachine", &m)
	if err != nil {
		return err
	}
	if !ours || m.Spec.Container == nil {
		return fmt.Errorf("the infrastructure of Machine %s/%s is no container machine: register the extension that is to update it", req.Desired.Machine.Namespace, req.Desired.Machine.Name)
	}
	live, want := &clusterv1.Machine{}, req.Desired.Machine.Spec
	if err := known.Get(ctx, client.ObjectKeyFromObject(&req.Desired.Machine), live); err != nil {
		return fmt.Errorf("get the Machine to update: %w", err)
	}
	if is := live.Spec; is.Version != want.Version || is.ClusterName != want.ClusterName || is.InfrastructureRef.Kind != m.Kind || is.InfrastructureRef.Name != m.Name || live.Namespace != m.Namespace {
		return fmt.Errorf("Machine %s/%s has version %s and %s %s, not those of the request", live.Namespace, live.Name, is.Version, is.InfrastructureRef.Kind, is.InfrastructureRef.Name)
	}
	progress, err := updater.UpdateMachine(ctx, localinfra.Machine{
		NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, ID: localinfra.MachineID(&m),
		Cluster: req.Desired.Machine.Spec.ClusterName, Version: req.Desired.Machine.Spec.Version, Spec: m.Spec,
	})
	if errors.Is(err, localinfra.ErrOpening) || errors.Is(err, localinfra.ErrNoCluster) { // this program has just started
		progress, err = localinfra.Progress{Message: err.Error()}, nil
	}
	if err != nil {
		return err
	}
	if resp.Message = progress.Message; !progress.Done {
		resp.RetryAfterSeconds = again
	}
	return nil
}
