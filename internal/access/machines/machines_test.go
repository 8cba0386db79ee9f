// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/writes"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// place is a management cluster with a factory, and a record of writes.
type place struct {
	*testing.T
	Factory
	writes []string
	fail   map[string]error // by the line in the record
}

func newPlace(t *testing.T, objects ...client.Object) *place {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	p := &place{T: t, fail: map[string]error{}}
	mgmt := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, crd("hosts"), crd("boots"))...).WithReturnManagedFields().
		WithInterceptorFuncs(writes.Before(func(verb string, obj client.Object) error {
			gvk, err := apiutil.GVKForObject(obj, scheme)
			if err != nil {
				t.Fatal(err)
			}
			if verb == "create" {
				obj.SetUID(types.UID("uid-" + gvk.Kind))
			}
			line := verb + " " + gvk.Kind
			p.writes = append(p.writes, line)
			return p.fail[line]
		})).Build()
	p.Factory = Factory{Mgmt: mgmt, Live: mgmt, Providers: provider.New(mgmt, nil), FieldOwner: "us"}
	return p
}

func (p *place) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// wrote checks the writes since its last call.
func (p *place) wrote(want ...string) {
	p.Helper()
	if diff := cmp.Diff(want, p.writes); diff != "" {
		p.Errorf("writes (-want +got):\n%s", diff)
	}
	p.writes = nil
}

func (p *place) machine() *clusterv1.Machine {
	p.Helper()
	m := &clusterv1.Machine{}
	p.must(p.Mgmt.Get(p.Context(), client.ObjectKey{Namespace: "ns", Name: "m"}, m))
	return m
}

func (p *place) thing(kind string) *unstructured.Unstructured {
	p.Helper()
	u := thing(kind, "m")
	p.must(p.Mgmt.Get(p.Context(), client.ObjectKey{Namespace: "ns", Name: "m"}, u))
	return u
}

func crd(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name: name + ".x.io", Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"},
	}}
}

func thing(kind, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion("x.io/v1")
	u.SetKind(kind)
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

func fromTemplate(kind string) *provider.Object {
	u := thing(kind, "t")
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"size": "big"}}}
	return &provider.Object{Unstructured: u, Contract: "v1beta2"}
}

func ref(kind string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: "m"}
}

func template() machinetemplate.Template {
	return machinetemplate.Template{
		Maker:       metav1.OwnerReference{APIVersion: "x.io/v1", Kind: "Maker", Name: "mk", UID: "maker"},
		Namespace:   "ns",
		Labels:      map[string]string{clusterv1.ClusterNameLabel: "c", "team": "blue"},
		Annotations: map[string]string{"note": "1"},
		Own:         map[string]string{"hook": ""},
		Spec:        clusterv1.MachineSpec{ClusterName: "c", Version: "v1.36.0", FailureDomain: "a"},
	}
}

func order() Order {
	return Order{Name: "m", Template: template(), BootstrapTemplate: fromTemplate("BootTemplate"), InfrastructureTemplate: fromTemplate("HostTemplate")}
}

func TestMakeCreatesEachWithAllItWillNeed(t *testing.T) {
	t.Parallel()
	ready := order()
	ready.BootstrapTemplate, ready.Bootstrap = nil, thing("Boot", "")
	for name, o := range map[string]Order{"from templates": order(), "from a bootstrap config that is ready": ready} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			made, err := p.Make(t.Context(), o)
			p.must(err)
			p.wrote("create Boot", "create Host", "create Machine")
			want := template().Machine("m")
			want.UID, want.Spec.Bootstrap.ConfigRef, want.Spec.InfrastructureRef = "uid-Machine", ref("Boot"), ref("Host")
			got := p.machine()
			if made.UID != got.UID || made.ResourceVersion != got.ResourceVersion {
				t.Errorf("returned %s of version %s, stored is %s of %s", made.UID, made.ResourceVersion, got.UID, got.ResourceVersion)
			}
			if got.ManagedFields[0].Manager != "us" {
				t.Errorf("signed by %s", got.ManagedFields[0].Manager)
			}
			got.ResourceVersion, got.ManagedFields = "", nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Machine (-want +got):\n%s", diff)
			}
			for _, kind := range []string{"Boot", "Host"} {
				obj := p.thing(kind)
				if diff := cmp.Diff(template().Labels, obj.GetLabels()); diff != "" {
					t.Errorf("labels of %s (-want +got):\n%s", kind, diff)
				}
				if _, own := obj.GetAnnotations()["hook"]; own || obj.GetAnnotations()["note"] != "1" {
					t.Errorf("annotations of %s %v, want those of the template and not the Machine's own", kind, obj.GetAnnotations())
				}
				if diff := cmp.Diff([]metav1.OwnerReference{template().Maker}, obj.GetOwnerReferences()); diff != "" {
					t.Errorf("owners of %s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

func TestMakeLeavesReferencesThatNothingIsMadeFor(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	o := Order{Name: "m", Template: template()}
	o.Template.Spec.InfrastructureRef = ref("Host")
	o.Template.Spec.Bootstrap.DataSecretName = new("data")
	_, err := p.Make(t.Context(), o)
	p.must(err)
	p.wrote("create Machine")
	if spec := p.machine().Spec; spec.InfrastructureRef != ref("Host") || *spec.Bootstrap.DataSecretName != "data" {
		t.Errorf("spec %+v", spec)
	}
}

func TestMakeDeletesWhatItHasMadeWhenTheRestFails(t *testing.T) {
	t.Parallel()
	quota := errors.New("quota")
	taken := template().Machine("m")
	taken.OwnerReferences[0].UID = "a user"
	tests := map[string]struct {
		there  []client.Object
		fail   string
		writes []string
		part   Part
	}{
		"of the bootstrap config":  {part: Bootstrap, fail: "create Boot", writes: []string{"create Boot"}},
		"of the infrastructure":    {part: Infrastructure, fail: "create Host", writes: []string{"create Boot", "create Host", "delete Boot"}},
		"of the Machine":           {part: Itself, fail: "create Machine", writes: []string{"create Boot", "create Host", "create Machine", "delete Host", "delete Boot"}},
		"whose name another's has": {part: Itself, there: []client.Object{taken}, fail: "create Machine", writes: []string{"create Boot", "create Host", "create Machine", "delete Host", "delete Boot"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, tc.there...)
			p.fail[tc.fail] = quota
			_, err := p.Make(t.Context(), order())
			if !errors.Is(err, quota) {
				t.Errorf("error %v, want %v", err, quota)
			}
			if e, _ := errors.AsType[*NotMadeError](err); e == nil || e.Part != tc.part || e.Lasting() != strings.ReplaceAll(err.Error(), "/m:", "/*:") {
				t.Errorf("error %#v, want one of %s", err, tc.part)
			}
			p.wrote(tc.writes...)
		})
	}
}

// lossy creates Machines, but its response does not arrive.
type lossy struct{ client.Client }

func (c lossy) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := c.Client.Create(ctx, obj, opts...); err != nil {
		return err
	}
	if _, is := obj.(*clusterv1.Machine); is {
		return errors.New("connection reset by peer")
	}
	return nil
}

// silent fails all reads.
type silent struct{ client.Reader }

func (silent) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("connection refused")
}

func TestMakeTakesNothingFromAMachineWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Mgmt = lossy{p.Mgmt}
	m, err := p.Make(t.Context(), order())
	if err != nil || m == nil || m.UID != "uid-Machine" {
		t.Errorf("got %v, error %v; want the Machine", m, err)
	}
	p.wrote("create Boot", "create Host", "create Machine")
}

func TestMakeDeletesNothingWhenItIsNotKnownWhetherTheMachineIsThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Mgmt, p.Live = lossy{p.Mgmt}, silent{}
	if m, err := p.Make(t.Context(), order()); err == nil {
		t.Errorf("got %v, and no error", m)
	}
	p.wrote("create Boot", "create Host", "create Machine")
}
