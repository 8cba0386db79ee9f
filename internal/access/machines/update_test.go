// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// bigger returns the desired state of the Machine of order: of another version, and
// from other templates.
func bigger(t *testing.T) Change {
	t.Helper()
	tmpl := template()
	tmpl.Spec.Version, tmpl.Labels = "v1.37.0", map[string]string{clusterv1.ClusterNameLabel: "c", "team": "red"}
	host, boot := fromTemplate("HostTemplate"), fromTemplate("BootTemplate")
	host.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"size": "bigger"}}}
	host.SetName("t2")
	c, err := Fresh(tmpl, "m", host, boot)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUpdateWritesTheMachineLast(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	m, err := p.Make(t.Context(), order())
	p.must(err)
	p.writes = nil
	p.must(p.Mark(t.Context(), m))
	p.wrote("patch Machine")
	p.fail["patch Machine"] = errors.New("the process crashes")
	if err := p.Update(t.Context(), p.machine(), bigger(t)); err == nil {
		t.Error("no error")
	}
	p.wrote("patch Host", "patch Boot", "patch Machine")
	if m := p.machine(); inplace.Pending(m) || m.Spec.Version != "v1.36.0" {
		t.Errorf("the Machine is written: %+v", m)
	}
	delete(p.fail, "patch Machine")
	p.must(p.Update(t.Context(), p.machine(), bigger(t)))
	p.wrote("patch Machine") // the others are as desired
	if m := p.machine(); !inplace.Pending(m) || !inplace.InProgress(m) || m.Spec.Version != "v1.37.0" || m.UID != "uid-Machine" {
		t.Errorf("Machine %+v", m)
	}
	host := p.thing("Host")
	if diff := cmp.Diff(map[string]any{"size": "bigger"}, host.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if a := host.GetAnnotations(); !inplace.InProgress(host) || a[clusterv1.TemplateClonedFromNameAnnotation] != "t2" || host.GetLabels()["team"] != "red" {
		t.Errorf("annotations %v, labels %v", a, host.GetLabels())
	}
}

func TestSidesAreTriedOutAndNothingIsStored(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	m, err := p.Make(t.Context(), order())
	p.must(err)
	from, to, err := p.Sides(t.Context(), m, bigger(t))
	p.must(err)
	if from.Machine.Spec.Version != "v1.36.0" || to.Machine.Spec.Version != "v1.37.0" {
		t.Errorf("from version %s to %s", from.Machine.Spec.Version, to.Machine.Spec.Version)
	}
	if diff := cmp.Diff([]any{map[string]any{"size": "big"}, map[string]any{"size": "bigger"}}, []any{from.Infrastructure.Object["spec"], to.Infrastructure.Object["spec"]}); diff != "" {
		t.Errorf("infrastructure (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"size": "big"}, p.thing("Host").Object["spec"]); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestUpdateDistinguishesRefusalFromFailure(t *testing.T) {
	t.Parallel()
	hosts := schema.GroupResource{Group: "x.io", Resource: "hosts"}
	for name, tc := range map[string]struct {
		err     error
		refused bool
	}{
		"by its schema":      {apierrors.NewInvalid(schema.GroupKind{Group: "x.io", Kind: "Host"}, "m", nil), true},
		"by its webhook":     {apierrors.NewForbidden(hosts, "m", errors.New(`admission webhook "hosts.x.io" denied the request`)), true},
		"for want of rights": {apierrors.NewForbidden(hosts, "m", errors.New("no right to patch")), false},
		"by chance":          {errors.New("connection reset"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			m, err := p.Make(t.Context(), order())
			p.must(err)
			p.fail["patch Host"] = tc.err
			err = p.Update(t.Context(), m, bigger(t))
			if _, refused := errors.AsType[*RefusedError](err); refused != tc.refused || !errors.Is(err, tc.err) {
				t.Errorf("error %v, refused %t, want %t", err, refused, tc.refused)
			}
		})
	}
}

func TestAnObjectDoesNotBecomeOneOfAnotherKind(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	m, err := p.Make(t.Context(), order())
	p.must(err)
	c := bigger(t)
	c.Infrastructure, c.Bootstrap = c.Bootstrap, nil
	err = p.Update(t.Context(), m, c)
	if refused, is := errors.AsType[*RefusedError](err); !is || refused.Error() != "Host m cannot become a Boot.x.io" {
		t.Errorf("error %v", err)
	}
}
