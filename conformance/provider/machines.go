// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/objectchecks"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
)

// machineNamed and poolNamed are things of the core.
func machineNamed(name string) thing {
	return thing{GroupKind: clusterv1.GroupVersion().WithKind("Machine").GroupKind(), Name: name}
}

// thing is a created object.
type thing = testnamespace.Thing

// clusterKey is the Cluster of the main object.
var clusterKey = thing{GroupKind: clusterv1.GroupVersion().WithKind("Cluster").GroupKind(), Name: "conformance"}

// missing is the name of a nonexistent object that blocks the Clusters and Machines that
// refer to it.
const missing = "missing"

// provisionedCluster creates the Cluster of the main object, with infrastructure from the
// config's example if it has one, and waits for it.
func (s *subject) provisionedCluster(ctx context.Context) error {
	return s.provisioned(ctx, clusterKey.Name, map[string]any{}, "infrastructureProvisioned")
}

// initialized creates a Cluster with a control plane from the config's example, and waits
// for it.
func (s *subject) initialized(ctx context.Context, name string) error {
	obj, err := s.World.Make(ctx, s.config.ControlPlane.Example, name)
	if err != nil {
		return err
	}
	return s.provisioned(ctx, name, map[string]any{"controlPlaneRef": refTo(testnamespace.ThingOf(obj))}, "controlPlaneInitialized")
}

// provisioned creates a Cluster, and waits for a field of its status under
// initialization.
func (s *subject) provisioned(ctx context.Context, name string, spec map[string]any, field string) error {
	if err := s.clusterOf(ctx, name, spec); err != nil {
		return err
	}
	return s.World.Await(ctx, func() error {
		cluster := objectOf(s.World.Latest(thing{GroupKind: clusterKey.GroupKind, Name: name}))
		if yes, _, _ := unstructured.NestedBool(cluster, "status", "initialization", field); !yes {
			return fmt.Errorf("status.initialization.%s of the Cluster is not true; its status is %s", field, objectchecks.JSON(cluster["status"]))
		}
		return nil
	})
}

// clusterOf creates a Cluster, with infrastructure from the config's example if it has
// one, and otherwise with an endpoint that no server listens on.
func (s *subject) clusterOf(ctx context.Context, name string, spec map[string]any) error {
	if infra := s.config.InfraCluster; infra != nil && infra.Example != nil {
		obj, err := s.World.Make(ctx, infra.Example, name)
		if err != nil {
			return err
		}
		spec["infrastructureRef"] = refTo(testnamespace.ThingOf(obj))
	} else if spec["controlPlaneRef"] == nil {
		spec["controlPlaneEndpoint"] = map[string]any{"host": "127.0.0.1", "port": int64(6443)}
		// A Cluster needs one of the two, and this one is not checked.
		spec["controlPlaneRef"] = map[string]any{"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "MissingControlPlane", "name": missing}
	}
	return makeCluster(ctx, s.World, name, spec)
}

func objectOf(obj *unstructured.Unstructured) map[string]any {
	if obj == nil {
		return nil
	}
	return obj.Object
}

// waitingCluster creates a Cluster whose infrastructure is never ready.
func (s *subject) waitingCluster(ctx context.Context) error {
	return makeCluster(ctx, s.World, "waiting", map[string]any{"infrastructureRef": map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "MissingCluster", "name": missing}})
}

// data creates bootstrap data without a provider, and refers to it.
func (s *subject) data(ctx context.Context, name string) (map[string]any, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.World.Namespace, Name: name + "-data", Labels: map[string]string{clusterv1.ClusterNameLabel: clusterKey.Name},
	}, StringData: map[string]string{"value": "#cloud-config\n"}, Type: clusterv1.ClusterSecretType}
	return map[string]any{"dataSecretName": secret.Name}, s.World.Client.Create(ctx, secret)
}

// bootstrap creates bootstrap data by the config's example if it has one, and refers to
// it.
func (s *subject) bootstrap(ctx context.Context, name string) (map[string]any, error) {
	if b := s.config.BootstrapConfig; b != nil && b.Example != nil {
		obj, err := s.World.Make(ctx, b.Example, name)
		if err != nil {
			return nil, err
		}
		return map[string]any{"configRef": refTo(testnamespace.ThingOf(obj))}, nil
	}
	return s.data(ctx, name)
}

// noBootstrap refers to bootstrap data that is never ready.
func (s *subject) noBootstrap() map[string]any {
	return map[string]any{"configRef": map[string]any{"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": missing}}
}

// makeMachine creates a Machine of a Cluster.
func (s *subject) makeMachine(ctx context.Context, name, cluster string, spec map[string]any, labels ...string) error {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetGroupVersionKind(clusterv1.GroupVersion().WithKind("Machine"))
	set(obj, cluster, "spec", "clusterName")
	set(obj, s.config.KubernetesVersion, "spec", "version")
	all := map[string]string{clusterv1.ClusterNameLabel: cluster}
	for _, l := range labels {
		all[l] = ""
	}
	obj.SetLabels(all)
	_, err := s.World.Make(ctx, obj, name)
	return err
}

// waits creates an object as in the example, and its owner by own, and checks that the
// object is not done, and has no result of being done.
func (s *subject) waits(ctx context.Context, name string, own func(thing) error) error {
	t := thing{GroupKind: s.kind.GroupKind, Name: name}
	if _, err := s.World.Make(ctx, s.Example, name); err != nil {
		return err
	}
	if err := own(t); err != nil {
		return err
	}
	if err := s.AwaitOwner(ctx, t); err != nil {
		return conformance.Skip("%w", err)
	}
	return s.World.Quietly(ctx, func() error {
		obj := s.World.Latest(t)
		if obj == nil {
			return fmt.Errorf("%s is gone", t)
		}
		done, err := s.IsDone(obj)
		if done {
			return fmt.Errorf("%s is done; its spec is %s", t, objectchecks.JSON(obj.Object["spec"]))
		}
		return err
	})
}

// kept is a test that a value of the main object stays as it was when it was done;
// versions for which the value is empty do not count.
func kept(what string, value func(*unstructured.Unstructured) string) func(context.Context, *subject) error {
	return func(_ context.Context, s *subject) error {
		all, err := s.AtDone()
		if err != nil {
			return err
		}
		first := value(all[0])
		for _, obj := range all {
			if now := value(obj); now != "" && now != first {
				return fmt.Errorf("%s of %s was %s, and is %s in version %s", what, s.Main, first, now, obj.GetResourceVersion())
			}
		}
		return nil
	}
}
