// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// ReadEvents returns the Events of a Cluster and of all that belongs to it, oldest first.
// Without a name it returns all of the namespace, and without a namespace all Events.
//
// Events of a deleted machine are found by the name that its set or control plane gave
// it, as long as that set or control plane exists.
func (c *Client) ReadEvents(ctx context.Context, key client.ObjectKey) ([]corev1.Event, error) {
	out, _, _, err := c.readEvents(ctx, key)
	return out, err
}

func (c *Client) readEvents(ctx context.Context, key client.ObjectKey) ([]corev1.Event, *belonging, string, error) {
	b := &belonging{Client: c, key: key, known: map[types.UID]bool{}}
	var none error
	if key.Name != "" {
		in, err := c.ReadTree(ctx, key, tree.Options{ShowResourceSets: true, ShowTemplates: true})
		if _, ok := errors.AsType[*NoClusterError](err); ok {
			none, in.Cluster = err, tree.Object{Kind: clusterv1.ClusterKind, Name: key.Name}
		} else if err != nil {
			return nil, nil, "", err
		}
		b.note(&in)
	}
	var all corev1.EventList
	if err := c.mgmt.List(ctx, &all, client.InNamespace(key.Namespace)); err != nil {
		return nil, nil, "", fmt.Errorf("list Events: %w", err)
	}
	out := slices.DeleteFunc(all.Items, func(e corev1.Event) bool { return !b.has(&e) })
	slices.SortStableFunc(out, func(x, y corev1.Event) int { return causes.EventTime(&x).Compare(causes.EventTime(&y)) })
	if len(out) > 0 {
		none = nil // it existed
	}
	return out, b, all.ResourceVersion, none
}

// FollowEvents passes each Event to show as ReadEvents returns them, and then each new or
// repeated one. It ends without an error when ctx does.
func (c *Client) FollowEvents(ctx context.Context, key client.ObjectKey, show func(*corev1.Event) error) error {
	shown := map[types.UID]string{} // to the version
	for first := true; first || lifecycle.Sleep(ctx, lookPeriod) == nil; first = false {
		events, b, version, err := c.readEvents(ctx, key)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && first {
			return err
		}
		if _, gone := errors.AsType[*NoClusterError](err); err != nil && !gone {
			return err
		}
		tell := func(e *corev1.Event) error {
			if shown[e.UID] == e.ResourceVersion {
				return nil
			}
			shown[e.UID] = e.ResourceVersion
			return show(e)
		}
		for i := range events {
			if err := tell(&events[i]); err != nil {
				return err
			}
		}
		w, err := c.mgmt.Watch(ctx, &corev1.EventList{}, client.InNamespace(key.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}})
		if err != nil {
			continue // the next read succeeds, or returns the cause
		}
		if err := b.pass(ctx, w, shown, tell); err != nil {
			return err
		}
	}
	return nil
}

// belonging decides which objects belong to a Cluster.
type belonging struct {
	*Client
	key     client.ObjectKey
	known   map[types.UID]bool // whether those seen before do
	names   map[string]bool    // KIND/NAME of those that do
	parents []string           // names of those that create machines
}

func (b *belonging) note(in *tree.Input) {
	b.names, b.parents = map[string]bool{}, nil
	for _, o := range in.Objects() {
		if o != in.Class {
			b.names[o.Kind+"/"+o.Name] = true
		}
		if strings.HasSuffix(o.Kind, "ControlPlane") || o.Kind == "MachineSet" || o.Kind == "MachinePool" {
			b.parents = append(b.parents, o.Name)
		}
	}
}

// made is the end of a name that a set or control plane gives to a machine.
var made = regexp.MustCompile(`^-[a-z0-9]{5}$`)

// has reports whether an Event is about an object of the Cluster that existed when it was
// read, or that is deleted.
func (b *belonging) has(e *corev1.Event) bool {
	about := &e.InvolvedObject
	if b.key.Name == "" || b.known[about.UID] || b.names[about.Kind+"/"+about.Name] {
		return true
	}
	return slices.ContainsFunc(b.parents, func(parent string) bool {
		end, ok := strings.CutPrefix(about.Name, parent)
		return ok && made.MatchString(end)
	})
}

// hasNow is has for an object that may be new: its label is read once.
func (b *belonging) hasNow(ctx context.Context, e *corev1.Event) bool {
	about := &e.InvolvedObject
	if b.has(e) {
		return true
	}
	if _, seen := b.known[about.UID]; seen || about.UID == "" {
		return false
	}
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(about.GroupVersionKind())
	err := b.mgmt.Get(ctx, client.ObjectKey{Namespace: about.Namespace, Name: about.Name}, obj)
	if err != nil && !apierrors.IsNotFound(err) {
		return false // and read again when it has more Events
	}
	b.known[about.UID] = err == nil && obj.Labels[clusterv1.ClusterNameLabel] == b.key.Name
	return b.known[about.UID]
}

// pass forwards the Events of a watch until the watch ends.
func (b *belonging) pass(ctx context.Context, w watch.Interface, shown map[types.UID]string, tell func(*corev1.Event) error) error {
	defer w.Stop()
	for {
		select {
		case change, ok := <-w.ResultChan():
			e, isEvent := change.Object.(*corev1.Event)
			if !ok || !isEvent {
				return nil // it ended or expired: start again
			}
			if change.Type == watch.Deleted {
				delete(shown, e.UID)
				continue
			}
			if !b.hasNow(ctx, e) {
				continue
			}
			if err := tell(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
