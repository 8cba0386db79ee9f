// SPDX-License-Identifier: Apache-2.0

// Package rollout changes how many machines a cluster has, and which: it pauses, resumes,
// restarts, scales and upgrades the objects that create them. It reads control planes and
// their machines by the fields of the contract, so that it supports those of other
// providers.
package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// Client works on one management cluster.
type Client struct{ mgmt client.WithWatch }

// New returns a client of the management cluster that mgmt accesses.
func New(mgmt client.WithWatch) *Client { return &Client{mgmt} }

// Object names an object that has machines.
type Object struct {
	// Kind is one that Parse supports.
	Kind string
	client.ObjectKey
}

func (o Object) String() string { return o.Kind + " " + o.ObjectKey.String() }

// kinds are those that command lines name, with their short names.
var kinds = []struct {
	group schema.GroupVersion
	kind  string
	short string
}{
	{clusterv1.GroupVersion(), clusterv1.ClusterKind, "cl"},
	{clusterv1.GroupVersion(), "ClusterClass", "cc"},
	{clusterv1.GroupVersion(), "MachineDeployment", "md"},
	{clusterv1.GroupVersion(), "MachineSet", "ms"},
	{clusterv1.GroupVersion(), "MachinePool", "mp"},
	{controlplanev1.GroupVersion(), "KubeadmControlPlane", "kcp"},
	{clusterv1.GroupVersion(), "Machine", "ma"},
	{clusterv1.GroupVersion(), "MachineHealthCheck", "mhc"},
	{bootstrapv1.GroupVersion(), "KubeadmConfig", ""},
	{infrav1.GroupVersion(), "LocalMachinePool", ""},
}

// Parse parses KIND/NAME from a command line; only the allowed kinds are accepted.
func Parse(text, namespace string, allowed ...string) (Object, error) {
	kind, name, ok := strings.Cut(text, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") {
		return Object{}, fmt.Errorf("%q is not KIND/NAME, such as machinedeployment/workers", text)
	}
	var known []string
	for _, k := range kinds {
		if !slices.Contains(allowed, k.kind) {
			continue
		}
		lower := strings.ToLower(k.kind)
		known = append(known, lower)
		switch strings.ToLower(kind) {
		case lower, lower + "s", lower + "." + k.group.Group, lower + "s." + k.group.Group, k.short:
			return Object{k.kind, client.ObjectKey{Namespace: namespace, Name: name}}, nil
		}
	}
	return Object{}, fmt.Errorf("%q: kind %q is not one of %s%s", text, kind, strings.Join(known, ", "), suggest.Hint(strings.ToLower(kind), known))
}

// GroupVersionKind is the kind at the version whose fields this package uses.
func (o Object) GroupVersionKind() schema.GroupVersionKind {
	for _, k := range kinds {
		if k.kind == o.Kind {
			return k.group.WithKind(k.kind)
		}
	}
	return schema.GroupVersionKind{Kind: o.Kind}
}

// Resource is the API resource of a kind that Parse supports.
func Resource(kind string) schema.GroupVersionResource {
	return Object{Kind: kind}.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(kind) + "s")
}

// get reads an object.
func (c *Client) get(ctx context.Context, o Object) (*unstructured.Unstructured, error) {
	return c.read(ctx, o.GroupVersionKind(), o.ObjectKey)
}

func (c *Client) read(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	err := c.mgmt.Get(ctx, key, obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no %s %s in namespace %s", gvk.Kind, key.Name, key.Namespace)
	case meta.IsNoMatchError(err):
		return nil, fmt.Errorf("the management cluster does not know the kind %s: is this a Cluster API management cluster?", gvk.Kind)
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", gvk.Kind, key, err)
	}
	return obj, nil
}

// change reads an object and writes it as changed by mutate; it retries if another
// client, such as its controller, wrote the object in between.
func (c *Client) change(ctx context.Context, gvk schema.GroupVersionKind, key client.ObjectKey, dryRun bool, mutate func(*unstructured.Unstructured) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		obj, err := c.read(ctx, gvk, key)
		if err != nil {
			return err
		}
		if err := mutate(obj); err != nil {
			return err
		}
		var opts []client.UpdateOption
		if dryRun {
			opts = append(opts, client.DryRunAll)
		}
		if err := c.mgmt.Update(ctx, obj, opts...); err != nil {
			return fmt.Errorf("change %s: %w", name(obj), err)
		}
		return nil
	})
}

func name(obj *unstructured.Unstructured) string {
	return obj.GetKind() + " " + client.ObjectKeyFromObject(obj).String()
}

// number is a number of an object; none if it has none.
func number(obj *unstructured.Unstructured, path ...string) (int64, bool) {
	n, ok, err := unstructured.NestedInt64(obj.Object, path...)
	return n, ok && err == nil
}

func text(obj *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.Object, path...)
	return s
}

// set changes a field of an object.
func set(obj *unstructured.Unstructured, value any, path ...string) error {
	if err := unstructured.SetNestedField(obj.Object, value, path...); err != nil {
		return fmt.Errorf("%s: %w", name(obj), err)
	}
	return nil
}

// rest is how long further changes are awaited after one: a controller that changes an
// object mostly changes others within moments.
const rest = 100 * time.Millisecond

// wait polls state until nothing is awaited, and reports progress when that changes. It
// calls state after each change of the objects that state watches. It ends with the
// context; the error then names what is still awaited.
func (c *Client) wait(ctx context.Context, progress func(string), state func(*references.Watcher) (awaited string, err error)) error {
	watched := references.NewWatcher(ctx, c.mgmt)
	defer watched.Stop()
	for last := ""; ; {
		awaited, err := state(watched)
		if ctx.Err() != nil {
			return fmt.Errorf("still waiting for %s", cmp.Or(last, awaited))
		}
		if err != nil || awaited == "" {
			return err
		}
		if awaited != last {
			progress("Waiting for " + awaited)
			last = awaited
		}
		select {
		case <-watched.Changed():
		case <-ctx.Done():
			continue
		}
		_ = lifecycle.Sleep(ctx, rest) // the next state reports its end
	}
}

// follow watches an object by its name.
func follow(w *references.Watcher, gvk schema.GroupVersionKind, key client.ObjectKey) {
	w.Follow(gvk, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
}
