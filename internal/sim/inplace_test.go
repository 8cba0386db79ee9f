// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/extension/mutation"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// updater is an extension that changes files and versions of machines in place.
type updater struct {
	w     *story
	takes time.Duration // one machine
	wrong error         // what it answers instead; nil for nothing
	can   mutation.InPlace

	begun   map[string]time.Time // by Machine
	has     map[string]string    // what it has, by Machine
	changed map[string]int       // how often
	asked   int                  // whether it can
	called  int                  // to update
}

func newUpdater() *updater {
	return &updater{takes: 10 * time.Second, can: mutation.InPlace{Machine: []string{"version"}, Bootstrap: []string{"files"}}, begun: map[string]time.Time{}, has: map[string]string{}, changed: map[string]int{}}
}

// as sets the extension of a World.
func (x *updater) as(o *Options) { o.Updates = x }

// withUpdater creates a World with such an extension.
func withUpdater(t testing.TB) (*story, *updater) {
	t.Helper()
	x := newUpdater()
	x.w = newWith(t, x.as)
	return x.w, x
}

// GetAllExtensions implements updates.Hooks.
func (x *updater) GetAllExtensions(context.Context, any, metav1.Object) ([]string, error) {
	return []string{"update.files"}, nil
}

// Reject implements updates.Hooks.
func (x *updater) Reject(any, string, hooksv1.RequestObject) {}

// CallExtension implements updates.Hooks.
func (x *updater) CallExtension(ctx context.Context, _ any, _ metav1.Object, _ string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	x.asked++
	if x.wrong != nil {
		return x.wrong
	}
	if q, is := request.(*hooksv1.CanUpdateMachineSetRequest); is {
		return x.can.CanUpdateMachineSet(ctx, q, response.(*hooksv1.CanUpdateMachineSetResponse))
	}
	return x.can.CanUpdateMachine(ctx, request.(*hooksv1.CanUpdateMachineRequest), response.(*hooksv1.CanUpdateMachineResponse))
}

// CallAllExtensions implements updates.Hooks.
func (x *updater) CallAllExtensions(_ context.Context, _ any, obj metav1.Object, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	x.called++
	if x.wrong != nil {
		return x.wrong
	}
	now, name := x.w.Clock.Now(), obj.GetName()
	config := &bootstrapv1.KubeadmConfig{}
	x.w.decode(request.(*hooksv1.UpdateMachineRequest).Desired.BootstrapConfig.Raw, config)
	wanted := fmt.Sprint(config.Spec.Files)
	began, ok := x.begun[name]
	if !ok && x.has[name] == wanted {
		return nil
	}
	if !ok {
		x.w.Record("extension: update %s: %d files", name, len(config.Spec.Files))
		began, x.begun[name] = now, now
	}
	left := began.Add(x.takes).Sub(now)
	if left <= 0 {
		x.w.Record("extension: %s is updated", name)
		delete(x.begun, name)
		x.has[name] = wanted
		x.changed[name]++
		return nil
	}
	a := response.(*hooksv1.UpdateMachineResponse)
	a.Message, a.RetryAfterSeconds = "copying files", int32((left+time.Second-1)/time.Second)
	return nil
}

// filesTemplate is another template of bootstrap configs, with so many files.
func filesTemplate(t *testing.T, w *story, name string, files int) *bootstrapv1.KubeadmConfigTemplate {
	t.Helper()
	old := get(t, w, "demo-workers", &bootstrapv1.KubeadmConfigTemplate{})
	next := &bootstrapv1.KubeadmConfigTemplate{Spec: *old.Spec.DeepCopy()}
	next.Namespace, next.Name, next.Labels = "default", name, old.Labels
	for i := range files {
		next.Spec.Template.Spec.Files = append(next.Spec.Template.Spec.Files, bootstrapv1.File{Path: fmt.Sprintf("/etc/file-%d", i), Content: "new"})
	}
	return next
}

// newFiles switches the workers to such a template.
func newFiles(t *testing.T, w *story, name string, files int) {
	t.Helper()
	w.must(w.Mgmt.Create(t.Context(), filesTemplate(t, w, name, files)))
	use(t, w, name)
}

// use switches the workers to a template of bootstrap configs.
func use(t *testing.T, w *story, name string) {
	t.Helper()
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "use KubeadmConfigTemplate "+name, func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.Bootstrap.ConfigRef.Name = name
	})
}

// pace sets how many workers may be unavailable, or more than desired.
func pace(t *testing.T, w *story, surge, unavailable int32) {
	t.Helper()
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, fmt.Sprintf("roll out with %d surplus and %d unavailable", surge, unavailable), func(d *clusterv1.MachineDeployment) {
		d.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(surge))
		d.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(unavailable))
	})
}

// workers writes the status of the MachineDeployment and its Machines.
func workers(t *testing.T, w *story) {
	t.Helper()
	md := get(t, w, "demo-workers", &clusterv1.MachineDeployment{})
	for _, of := range []string{clusterv1.AvailableCondition, clusterv1.RollingOutCondition, clusterv1.MachinesUpToDateCondition} {
		c := conditions.Get(md, of)
		w.Record("MachineDeployment %s: %s %s %s", md.Name, of, c.Status, c.Message)
	}
	for _, obj := range w.objects("MachineSet") {
		set := obj.(*clusterv1.MachineSet)
		w.Record("MachineSet %s: %d of %d", set.Name, *set.Status.Replicas, *set.Spec.Replicas)
	}
	for _, obj := range w.objects("Machine") {
		m := obj.(*clusterv1.Machine)
		updating := conditions.Get(m, clusterv1.MachineUpdatingCondition)
		w.Record("Machine %s of %s: %s, Updating %s %s", m.Name, metav1.GetControllerOf(m).Name, m.Status.Phase, updating.Reason, updating.Message)
	}
}

func TestWorkersAreUpdatedInPlace(t *testing.T) {
	t.Parallel()
	w, _ := withUpdater(t)
	create(t, w, "demo", 1, 3)
	pace(t, w, 0, 1)
	newFiles(t, w, "demo-workers-2", 2)
	workers(t, w)
	w.RunFor(time.Minute)
	workers(t, w)
	end(t, w)
	w.Golden("workers-are-updated-in-place.txt")
}

func TestWorkerUpdateSurvivesCrash(t *testing.T) {
	t.Parallel()
	w, x := withUpdater(t)
	create(t, w, "demo", 1, 1)
	pace(t, w, 0, 1)
	before := identities(w)
	w.must(w.Mgmt.Create(t.Context(), filesTemplate(t, w, "demo-workers-2", 2)))
	edit(t, w, "demo-workers", &clusterv1.MachineDeployment{}, func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.Bootstrap.ConfigRef.Name = "demo-workers-2"
	})
	w = crashes(w, lives{writes: onceEach}, x.as, func(w *story) bool {
		md, sets := get(t, w, "demo-workers", &clusterv1.MachineDeployment{}), w.objects("MachineSet")
		return len(sets) == 1 && sets[0].GetName() != "demo-workers-1" && *md.Status.UpToDateReplicas == 1
	})
	x.updatedOnce(before, identities(w), "demo-workers-1-1")
}

func TestControlPlaneUpdateSurvivesCrash(t *testing.T) {
	t.Parallel()
	w, x := withUpdater(t)
	create(t, w, "demo", 3, 0)
	before := identities(w)
	edit(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		k.Spec.KubeadmConfigSpec.Files = append(k.Spec.KubeadmConfigSpec.Files, bootstrapv1.File{Path: "/etc/audit.yaml", Content: "rules: []"})
	})
	w = crashes(w, lives{writes: onceEach}, x.as, func(w *story) bool { // until the second has started: the next goes as the last
		return inplace.Pending(get(t, w, controlPlane+"-2", &clusterv1.Machine{}))
	})
	w.RunFor(time.Minute)
	x.updatedOnce(before, identities(w), controlPlane+"-1", controlPlane+"-2", controlPlane+"-3")
}

// updatedOnce fails unless the Machines are the same, and each was changed once.
func (x *updater) updatedOnce(before, after map[string]types.UID, machines ...string) {
	x.w.t.Helper()
	if !maps.Equal(before, after) {
		x.w.t.Errorf("Machines were %v, and are %v", before, after)
	}
	want := map[string]int{}
	for _, name := range machines {
		want[name] = 1
	}
	if !maps.Equal(want, x.changed) {
		x.w.t.Errorf("changed, each so many times: %v", x.changed)
	}
}

// identities are the UIDs of the Machines.
func identities(w *story) map[string]types.UID {
	out := map[string]types.UID{}
	for _, m := range w.objects("Machine") {
		out[m.GetName()] = m.GetUID()
	}
	return out
}

func TestAControlPlaneIsUpdatedInPlace(t *testing.T) {
	t.Parallel()
	w, _ := withUpdater(t)
	create(t, w, "demo", 3, 0)
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "roll out without surplus, and with a file", func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		k.Spec.KubeadmConfigSpec.Files = append(k.Spec.KubeadmConfigSpec.Files, bootstrapv1.File{Path: "/etc/audit.yaml", Content: "rules: []"})
	})
	says(t, w, "Available", "RollingOut", "MachinesUpToDate")
	before := identities(w)
	w.RunFor(time.Minute)
	says(t, w, "Available", "RollingOut", "MachinesUpToDate")
	end(t, w)
	if after := identities(w); !maps.Equal(before, after) {
		t.Errorf("Machines were %v, and are %v", before, after)
	}
	w.Golden("a-control-plane-is-updated-in-place.txt")
}

func TestAnExtensionThatDoesNotAnswerHoldsTheRollout(t *testing.T) {
	t.Parallel()
	w, x := withUpdater(t)
	create(t, w, "demo", 1, 2)
	pace(t, w, 0, 1)
	x.wrong = errors.New("call extension handler: connection refused")
	w.must(w.Mgmt.Create(t.Context(), filesTemplate(t, w, "demo-workers-2", 2)))
	w.Record("# use KubeadmConfigTemplate demo-workers-2, while the extension does not answer")
	edit(t, w, "demo-workers", &clusterv1.MachineDeployment{}, func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.Bootstrap.ConfigRef.Name = "demo-workers-2"
	})
	fails(w, x.wrong)
	workers(t, w)
	w.Record("# the extension answers, and then crashes in the middle")
	x.wrong = nil
	w.Run()
	x.wrong = errors.New("call extension handler: connection reset")
	fails(w, x.wrong)
	workers(t, w)
	w.Record("# it says that it has failed")
	x.wrong = &extensionconfig.FailureError{Message: "the disk is full"}
	fails(w, x.wrong)
	workers(t, w)
	w.Record("# it is well again")
	x.wrong = nil
	w.RunFor(time.Minute)
	workers(t, w)
	w.Golden("an-extension-does-not-answer.txt")
}

// fails lets a minute pass that ends with that error.
func fails(w *story, with error) {
	w.t.Helper()
	if err := w.World.RunFor(w.t.Context(), time.Minute); !errors.Is(err, with) {
		w.t.Errorf("error %v, want %v", err, with)
	}
}

func TestATemplateGoesBackAndChangesAgainWhileMachinesAreUpdated(t *testing.T) {
	t.Parallel()
	w, _ := withUpdater(t)
	create(t, w, "demo", 1, 3)
	pace(t, w, 0, 1)
	before := identities(w)
	newFiles(t, w, "demo-workers-2", 2)
	use(t, w, "demo-workers")
	workers(t, w)
	w.RunFor(5 * time.Second)
	newFiles(t, w, "demo-workers-3", 3)
	workers(t, w)
	w.RunFor(2 * time.Minute)
	workers(t, w)
	if after := identities(w); !maps.Equal(before, after) {
		t.Errorf("Machines were %v, and are %v", before, after)
	}
	w.Golden("a-template-goes-back-while-machines-are-updated.txt")
}

func TestAMachineIsDeletedOrRemediatedWhileItIsUpdated(t *testing.T) {
	t.Parallel()
	w, x := withUpdater(t)
	create(t, w, "demo", 1, 3)
	pace(t, w, 0, 1)
	x.takes = time.Hour // it never ends
	newFiles(t, w, "demo-workers-2", 2)
	w.RunFor(10 * time.Minute)
	workers(t, w)
	w.Record("# delete demo-workers-1-1")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo-workers-1-1", &clusterv1.Machine{})))
	w.Run()
	workers(t, w)
	markForRemediation(t, w, "demo-workers-1-2")
	workers(t, w)
	x.takes = 10 * time.Second
	w.RunFor(time.Hour)
	workers(t, w)
	w.Golden("a-machine-is-deleted-while-it-is-updated.txt")
}

func TestAMachineThatWaitsToBeUpdatedSaysWhy(t *testing.T) {
	t.Parallel()
	w, _ := withUpdater(t)
	create(t, w, "demo", 1, 2)
	pace(t, w, 0, 1)
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "to v1.37.0, before the control plane", func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.Version = "v1.37.0"
	})
	workers(t, w)
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "the control plane to v1.37.0", func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Version = "v1.37.0"
	})
	w.RunFor(time.Minute)
	workers(t, w)
	w.Golden("a-machine-that-waits-to-be-updated-says-why.txt")
}

func TestWorkersAreScaledAndTheClusterIsPausedWhileTheyAreUpdated(t *testing.T) {
	t.Parallel()
	w, x := withUpdater(t)
	create(t, w, "demo", 1, 3)
	pace(t, w, 0, 1)
	newFiles(t, w, "demo-workers-2", 2)
	scale := func(n int32) {
		change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, fmt.Sprintf("scale to %d", n), func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = &n })
		workers(t, w)
	}
	pause := func(paused bool) {
		change(t, w, "demo", &clusterv1.Cluster{}, fmt.Sprintf("paused: %t", paused), func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
	}
	scale(4)
	pause(true)
	asked, called := x.asked, x.called
	w.RunFor(time.Hour)
	if x.asked != asked || x.called != called {
		t.Errorf("asked %d times and called %d times while paused", x.asked-asked, x.called-called)
	}
	pause(false)
	workers(t, w)
	scale(2)
	w.RunFor(2 * time.Minute)
	workers(t, w)
	w.Golden("workers-are-scaled-and-paused-while-they-are-updated.txt")
}

// TestWhatATemplateHadGoesAfterAMove changes workers in place after their objects
// were moved to another management cluster, where no managedFields record the
// writers.
func TestWhatATemplateHadGoesAfterAMove(t *testing.T) {
	t.Parallel()
	w, x := withUpdater(t)
	create(t, w, "demo", 1, 1)
	pace(t, w, 0, 1)
	newFiles(t, w, "demo-workers-2", 2)
	w.RunFor(time.Minute)
	objects, err := w.Objects(t.Context())
	w.must(err)
	for _, obj := range objects {
		obj.SetManagedFields(nil)
	}
	w = begin(t, Options{Clock: w.Clock, Backends: w.machines, Objects: objects, Updates: x})
	x.w = w
	before := identities(w)
	use(t, w, "demo-workers")
	w.RunFor(time.Minute)
	if files := get(t, w, "demo-workers-1-1", &bootstrapv1.KubeadmConfig{}).Spec.Files; len(files) > 0 {
		t.Errorf("files that no template has stay: %v", files)
	}
	if after := identities(w); !maps.Equal(before, after) {
		t.Errorf("Machines were %v, and are %v", before, after)
	}
}

func TestAMachineThatAnUpdateWouldLeaveOutdatedIsReplaced(t *testing.T) {
	t.Parallel()
	w, x := withUpdater(t)
	create(t, w, "demo", 3, 0)
	change(t, w, controlPlane, &controlplanev1.KubeadmControlPlane{}, "roll out without surplus", func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
	})
	change(t, w, controlPlane+"-2", &bootstrapv1.KubeadmConfig{}, "another client changes a bootstrap config", func(c *bootstrapv1.KubeadmConfig) {
		c.Spec.Verbosity = new(int32(9))
	})
	w.RunFor(time.Hour)
	end(t, w)
	if x.called > 0 {
		t.Errorf("the extension was called %d times", x.called)
	}
	w.Golden("a-machine-that-an-update-would-leave-outdated-is-replaced.txt")
}

func TestWhereNoMachineMayBeMissingOneComesFirst(t *testing.T) {
	t.Parallel()
	w, _ := withUpdater(t)
	create(t, w, "demo", 1, 3)
	newFiles(t, w, "demo-workers-2", 2)
	w.RunFor(2 * time.Minute)
	workers(t, w)
	w.Golden("workers-are-updated-with-a-surplus.txt")
}
