// SPDX-License-Identifier: Apache-2.0

package containerhost

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containers"
)

// counted is a backend that counts its calls.
type counted struct {
	machines
	calls int
}

func (c *counted) EnsureCluster(context.Context, localinfra.Cluster) (clusterv1.APIEndpoint, error) {
	c.calls++
	return clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}, nil
}

func (c *counted) ResumeCluster(context.Context, localinfra.Cluster) error {
	c.calls++
	return nil
}

func (c *counted) EnsureMachine(context.Context, localinfra.Machine) (localinfra.MachineStatus, error) {
	c.calls++
	return localinfra.MachineStatus{Stage: localinfra.Done}, nil
}

func (c *counted) DeleteMachine(context.Context, localinfra.Machine) error {
	c.calls++
	return nil
}

func TestHostIsCheckedBeforeFirstMachine(t *testing.T) {
	t.Parallel()
	uses := map[string]func(context.Context, localinfra.Backend) error{
		"a cluster is made": func(ctx context.Context, b localinfra.Backend) error {
			at, err := b.EnsureCluster(ctx, localinfra.Cluster{})
			if err == nil && at.IsZero() {
				t.Error("the endpoint of the cluster is unknown")
			}
			return err
		},
		"a cluster is run again": func(ctx context.Context, b localinfra.Backend) error {
			return b.ResumeCluster(ctx, localinfra.Cluster{})
		},
		"a machine is made": func(ctx context.Context, b localinfra.Backend) error {
			s, err := b.EnsureMachine(ctx, localinfra.Machine{})
			if err == nil && s.Stage != localinfra.Done {
				t.Error("the state of the machine is unknown")
			}
			return err
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks, behind := 0, &counted{}
			lacking := []containers.Problem{{What: "no overlayfs", Remedy: "load it"}, {What: "few files", Remedy: "raise it", Warning: true}, {What: "no bridges", Remedy: "load them"}}
			c := &checked{machines: behind, namespaces: []string{"*"}, check: func(context.Context) []containers.Problem {
				looks++
				return lacking
			}}
			if err := c.DeleteMachine(t.Context(), localinfra.Machine{}); err != nil || looks != 0 || behind.calls != 1 {
				t.Errorf("to delete one: %v, looked %d times", err, looks)
			}
			const want = `this host cannot run container machines: no overlayfs: load it; no bridges: load them; "capstan doctor" checks again`
			for range 2 {
				if err := use(t.Context(), c); err == nil || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if looks != 2 || behind.calls != 1 {
				t.Errorf("looked %d times, want each time; %d calls came through", looks, behind.calls)
			}
			lacking = lacking[1:2] // repaired, except a warning
			for range 2 {
				if err := use(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
			if looks != 3 || behind.calls != 3 {
				t.Errorf("checked %d times, want no further check once it is fit; %d calls came through", looks, behind.calls)
			}
		})
	}
}

func (c *counted) UpdateMachine(context.Context, localinfra.Machine) (localinfra.Progress, error) {
	c.calls++
	return localinfra.Progress{Done: true}, nil
}

func TestMachinesThatRunAreUpdated(t *testing.T) {
	t.Parallel()
	behind := &counted{}
	var backend localinfra.Backend = &checked{machines: behind}
	updater, can := backend.(localinfra.Updater)
	if !can {
		t.Fatal("no updater of machines")
	}
	if p, err := updater.UpdateMachine(t.Context(), localinfra.Machine{}); err != nil || !p.Done || behind.calls != 1 {
		t.Errorf("progress %+v, %v after %d calls", p, err, behind.calls)
	}
}

func TestNothingIsCreatedInOtherNamespaces(t *testing.T) {
	t.Parallel()
	in := func(ns string) types.NamespacedName { return types.NamespacedName{Namespace: ns, Name: "x"} }
	creates := map[string]func(context.Context, localinfra.Backend, string) error{
		"cluster": func(ctx context.Context, b localinfra.Backend, ns string) error {
			_, err := b.EnsureCluster(ctx, localinfra.Cluster{NamespacedName: in(ns)})
			return err
		},
		"machine": func(ctx context.Context, b localinfra.Backend, ns string) error {
			_, err := b.EnsureMachine(ctx, localinfra.Machine{NamespacedName: in(ns)})
			return err
		},
	}
	uses := map[string]func(context.Context, localinfra.Backend, string) error{
		"a cluster that was created": func(ctx context.Context, b localinfra.Backend, ns string) error {
			_, err := b.EnsureCluster(ctx, localinfra.Cluster{NamespacedName: in(ns), Made: true})
			return err
		},
		"a cluster that is paused": func(ctx context.Context, b localinfra.Backend, ns string) error {
			return b.ResumeCluster(ctx, localinfra.Cluster{NamespacedName: in(ns)})
		},
		"a machine that was created": func(ctx context.Context, b localinfra.Backend, ns string) error {
			_, err := b.EnsureMachine(ctx, localinfra.Machine{NamespacedName: in(ns), Provisioned: true})
			return err
		},
		"a machine to delete": func(ctx context.Context, b localinfra.Backend, ns string) error {
			return b.DeleteMachine(ctx, localinfra.Machine{NamespacedName: in(ns)})
		},
	}
	for name, tc := range map[string]struct {
		namespaces []string
		namespace  string
		want       string
	}{
		"named":         {[]string{"default", "lab"}, "lab", ""},
		"all":           {[]string{"*"}, "lab", ""},
		"not named":     {[]string{"default"}, "lab", "container machines are not allowed in this namespace: to allow them in lab, start the plane with --container-namespaces=default,lab"},
		"none is named": {nil, "lab", "container machines are not allowed in this namespace: to allow them in lab, start the plane with --container-namespaces=lab"},
		"none":          {[]string{"none"}, "lab", "container machines are not allowed in this namespace: to allow them in lab, start the plane with --container-namespaces=lab"},
		"called none":   {[]string{"none"}, "none", "container machines are not allowed in this namespace: to allow them in none, start the plane with --container-namespaces=none"},
		"a part":        {[]string{"lab-1"}, "lab", "container machines are not allowed in this namespace: to allow them in lab, start the plane with --container-namespaces=lab-1,lab"},
		"no namespace":  {[]string{"default"}, "", "container machines are not allowed in this namespace: to allow them in , start the plane with --container-namespaces=default,"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behind := &counted{}
			c := &checked{machines: behind, namespaces: tc.namespaces, check: func(context.Context) []containers.Problem { return nil }}
			for what, create := range creates {
				before := behind.calls
				err := create(t.Context(), c, tc.namespace)
				if tc.want == "" && (err != nil || behind.calls != before+1) {
					t.Errorf("%s: %v, want it to be created", what, err)
				}
				if tc.want != "" && (!errors.Is(err, localinfra.ErrNotAllowed) || err.Error() != tc.want || behind.calls != before) {
					t.Errorf("%s: %v, want %s", what, err, tc.want)
				}
			}
			for what, use := range uses {
				if err := use(t.Context(), c, tc.namespace); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
