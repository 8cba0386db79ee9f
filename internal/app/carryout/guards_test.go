// SPDX-License-Identifier: Apache-2.0

package carryout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

// TestGuardHasTheObjectsOfItsClusterAlone has two Clusters, whose objects name theirs, and
// one object that may belong to either.
func TestGuardHasTheObjectsOfItsClusterAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one", "two", "shared")
	s := saved(t, "one", "two", "shared")
	for i, name := range []string{"one", "two"} {
		s.Writes[i].Object.Raw = []byte(strings.Replace(string(s.Writes[i].Object.Raw), `"spec":{`, `"spec":{"clusterName":"`+name+`",`, 1))
	}
	s.Plan.Clusters = s.Plan.Clusters[:2]
	s.Plan.Change = []planv1.Object{{Kind: "MachineDeployment", Namespace: "ns", Name: "forged", Fields: []planv1.Field{{Path: "spec.paused"}}}}
	changes := map[string]string{}
	_, err := w.run(w.whenSent(func(g *planv1.PlanGuard) {
		changes[g.Name] = fmt.Sprint(g.Spec.Change)
		w.rollOut(g.Name)
		w.pass(time.Minute)
		w.ends(g)
	}), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		want := fmt.Sprint([]planv1.Object{{Kind: "MachineDeployment", Namespace: "ns", Name: name}, {Kind: "MachineDeployment", Namespace: "ns", Name: "shared"}})
		if changes[name] != want {
			t.Errorf("the guard of Cluster %s has %s, want %s", name, changes[name], want)
		}
	}
}

// TestPlanThatIsTooLargeIsRefusedFirst has a second Cluster whose plan no guard can store.
func TestPlanThatIsTooLargeIsRefusedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one", "two")
	s := saved(t, "one", "two")
	for i := range 20000 {
		name := fmt.Sprint("machine-", i)
		s.Plan.Clusters[1].Machines = append(s.Plan.Clusters[1].Machines, planv1.Machine{Name: name, UID: types.UID(name), Owner: deployment, Action: planv1.Deleted})
	}
	writing := interceptor.NewClient(w.WithWatch, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return errors.New("something is written")
		},
	})
	if err := Refused(s); err == nil || !strings.Contains(err.Error(), "the plan of Cluster ns/two is too large for a guard") {
		t.Errorf("error %v", err)
	}
	if _, err := w.run(writing, s); err == nil || !strings.Contains(err.Error(), "is too large") || strings.Contains(err.Error(), "is written") {
		t.Errorf("error %v", err)
	}
}

// TestGuardOfAPlanThatIsNotSentEnds has a server that refuses the first object of a plan. A
// guard of a Cluster that requires plans stays without one; another is deleted, which a
// user may not be allowed to do.
func TestGuardOfAPlanThatIsNotSentEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		requires, forbidden bool
		left                string // its spec
		want                string
	}{
		"not required":             {false, false, "none", "nothing was changed: MachineDeployment ns/one: no"},
		"not allowed":              {false, true, "0123456789ab", "the guard of Cluster ns/one stays until its deadline: planguards.plan.capstan.dev \"one\" is forbidden"},
		"of one that requires one": {true, true, "required", "nothing was changed: MachineDeployment ns/one: no"},
	} {
		w := newWorld(t, "one")
		if tc.requires {
			cluster := &clusterv1.Cluster{}
			if err := w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "one"}, cluster); err != nil {
				t.Fatal(err)
			}
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, planv1.RequirePlanAnnotation, "true")
			if err := w.Update(t.Context(), cluster); err != nil {
				t.Fatal(err)
			}
		}
		refusing := interceptor.NewClient(w.WithWatch, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
				if obj.GetObjectKind().GroupVersionKind().Kind == "MachineDeployment" {
					return errors.New("no")
				}
				return c.Patch(ctx, obj, p, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
				if _, is := obj.(*planv1.PlanGuard); is && tc.forbidden {
					return apierrors.NewForbidden(planv1.GroupVersion().WithResource("planguards").GroupResource(), obj.GetName(), errors.New("not this user"))
				}
				return c.Delete(ctx, obj, opts...)
			},
		})
		_, err := w.run(refusing, saved(t, "one"))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
		g, left := &planv1.PlanGuard{}, "none"
		if err := w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "one"}, g); err == nil {
			left = g.Spec.Plan
			if g.Spec.Required && left == "" {
				left = "required"
			}
		}
		if left != tc.left {
			t.Errorf("%s: the guard that is left is %q, want %q", name, left, tc.left)
		}
	}
}

// TestPlanIsFollowedWhileThePlaneRestarts has a management cluster that does not answer for
// a while when the watches have started.
func TestPlanIsFollowedWhileThePlaneRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one")
	down := 0
	c := interceptor.NewClient(w.whenSent(func(g *planv1.PlanGuard) {
		w.mu.Lock()
		down = 1
		w.mu.Unlock()
		w.rollOut("one")
		w.pass(time.Minute)
		w.ends(g)
	}), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			w.mu.Lock()
			failing := down > 0
			down--
			w.mu.Unlock()
			if failing {
				return &url.Error{Op: "Get", URL: "https://plane", Err: syscall.ECONNREFUSED}
			}
			return c.List(ctx, list, opts...)
		},
	})
	got, err := w.run(c, saved(t, "one"))
	if err != nil || got[0].End != CarriedOut || len(got[0].Differences) > 0 {
		t.Errorf("%+v, error %v", got, err)
	}
}

// TestWriteThatIsNotAnsweredIsSentAgain has a plane that restarts while the first object is
// sent: nothing shows whether it was stored.
func TestWriteThatIsNotAnsweredIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, canceled := range map[string]bool{"it answers then": false, "the user gives up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "one")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tries := 0
			c := interceptor.NewClient(w.whenSent(func(g *planv1.PlanGuard) {
				w.rollOut("one")
				w.pass(time.Minute)
				w.ends(g)
			}), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
					if obj.GetObjectKind().GroupVersionKind().Kind != "MachineDeployment" {
						return c.Patch(ctx, obj, p, opts...)
					}
					if tries++; tries > 1 {
						return c.Patch(ctx, obj, p, opts...)
					}
					if canceled {
						cancel()
					}
					return &url.Error{Op: "Patch", URL: "https://plane", Err: io.EOF}
				},
			})
			got, err := Run(ctx, Options{Mgmt: c, Now: w.clock, Progress: w.progress}, saved(t, "one"))
			if canceled {
				if left := fmt.Sprint(w.guardsLeft()); tries != 1 || err == nil || !strings.Contains(err.Error(), "EOF; written: ; not written: MachineDeployment ns/one; the guard stays until") || left != "[one]" {
					t.Errorf("%d attempts, error %v, guards %s", tries, err, left)
				}
				return
			}
			if err != nil || tries != 2 || got[0].End != CarriedOut {
				t.Errorf("%d attempts, %+v, error %v", tries, got, err)
			}
		})
	}
}
