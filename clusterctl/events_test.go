// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// about is an Event of an object, at a minute.
func about(kind, name string, minute int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: described.Namespace, Name: fmt.Sprintf("%s.%d", name, minute), UID: types.UID(fmt.Sprint(kind, name, minute))},
		InvolvedObject: corev1.ObjectReference{APIVersion: clusterv1.GroupVersion().String(), Kind: kind, Namespace: described.Namespace, Name: name, UID: types.UID(kind + name)},
		LastTimestamp:  metav1.NewTime(time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC)), Reason: fmt.Sprint(minute),
	}
}

func TestTheEventsOfAClusterAreThoseOfAllThatBelongsToIt(t *testing.T) {
	t.Parallel()
	objects := append(withMachines(2), about("Machine", "m-001", 5), about("Cluster", "demo", 1), about("KubeadmConfig", "m-000", 3), about("Cluster", "demo-2", 2),
		about("Machine", "cp-x7k2p", 4), about("Machine", "cp-of-others", 6), about("Machine", "unrelated", 7))
	late := about("LocalMachine", "m-000", 0)
	late.Series = &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(time.Date(2026, 1, 1, 13, 0, 0, 0, time.UTC))}
	c, _ := counted(t, append(objects, late)...)
	for key, want := range map[client.ObjectKey][]string{
		described:                            {"Cluster/demo", "KubeadmConfig/m-000", "Machine/cp-x7k2p", "Machine/m-001", "LocalMachine/m-000"},
		{Namespace: "fleet"}:                 {"Cluster/demo", "Cluster/demo-2", "KubeadmConfig/m-000", "Machine/cp-x7k2p", "Machine/m-001", "Machine/cp-of-others", "Machine/unrelated", "LocalMachine/m-000"},
		{Namespace: "elsewhere"}:             nil,
		{Namespace: "fleet", Name: "demo-2"}: {"Cluster/demo-2"}, // it is deleted, and they are not
	} {
		events, err := c.ReadEvents(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events {
			got = append(got, e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events of %s (-want +got):\n%s", key, diff)
		}
	}
	if _, err := c.ReadEvents(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "never"}); !errors.As(err, new(*NoClusterError)) {
		t.Errorf("error %v, want that there is no such Cluster", err)
	}
}

func TestEventsAreFollowedAlsoOfObjectsThatAreNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reads := counted(t, append(withMachines(1), about("Cluster", "demo", 1))...)
		ctx, cancel := context.WithCancel(t.Context())
		var shown []string
		done := make(chan error, 1)
		go func() {
			done <- c.FollowEvents(ctx, described, func(e *corev1.Event) error {
				shown = append(shown, e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name)
				return nil
			})
		}()
		time.Sleep(time.Hour)
		other := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: described.Namespace, Name: "other"}}
		for _, obj := range []client.Object{
			&clusterv1.Machine{ObjectMeta: named("m", "new")}, about("Machine", "new", 2), other, about("Machine", "other", 3), about("Machine", "new", 4),
		} {
			if err := c.mgmt.Create(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		before := reads.Load()
		if err := c.mgmt.Create(t.Context(), about("Machine", "other", 5)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if more := reads.Load() - before; more != 0 {
			t.Errorf("%d requests for an object that is known not to belong to the cluster", more)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"Cluster/demo", "Machine/new", "Machine/new"}, shown); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
	})
}
