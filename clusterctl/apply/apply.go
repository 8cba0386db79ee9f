// SPDX-License-Identifier: Apache-2.0

// Package apply writes the components of providers to a management cluster, and deletes
// them. It checks all of them before the first write. An interrupted operation is resumed
// by running it again.
//
// Allowed reports which permissions the user has, so that missing ones are found
// before anything is changed.
package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// oldest is the oldest Kubernetes version that components are written to. An older API
// server accepts definitions but silently drops the CEL rules that it does not support.
const oldest = "v1.25.0"

// fieldOwner is the field manager of the fields that this package writes.
const fieldOwner = "capstan"

// Cluster is a management cluster that components are written to.
type Cluster struct {
	mgmt     client.Client
	kinds    Discovery
	patience wait.Backoff
}

// Discovery reports the version of an API server and lists the kinds that it serves; a
// discovery client implements it.
type Discovery interface {
	ServerPreferredResources() ([]*metav1.APIResourceList, error)
	ServerVersion() (*apimachineryversion.Info, error)
}

// New returns the management cluster behind cfg.
func New(cfg *rest.Config) (*Cluster, error) {
	scheme := runtime.NewScheme()
	// The first is for storage migration, the second for Pods.
	if err := errors.Join(apiextensionsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mgmt, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return NewWithClient(mgmt, kinds), nil
}

// NewWithClient returns the management cluster that mgmt accesses, whose kinds are those
// that kinds lists. The scheme of mgmt must include CustomResourceDefinition.
func NewWithClient(mgmt client.Client, kinds Discovery) *Cluster {
	// A webhook that has just been installed, and a new kind, need some seconds before
	// they respond: half a minute in all, with shorter waits first.
	return &Cluster{mgmt, kinds, wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.3, Steps: 17}}
}

// Client returns the client that the cluster is written with.
func (c *Cluster) Client() client.Client { return c.mgmt }

// Supported returns an error if the Kubernetes version of the management cluster is too
// old for the components.
func (c *Cluster) Supported() error {
	info, err := c.kinds.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the management cluster for its version of Kubernetes: %w", err)
	}
	v, err := version.ParseGeneric(info.GitVersion) // some distributions add build metadata
	if err != nil {
		return fmt.Errorf("read the version of Kubernetes of the management cluster: %w", err)
	}
	if v.LessThan(version.MustParseGeneric(oldest)) {
		return fmt.Errorf("the management cluster runs Kubernetes %s, and %s is the oldest that providers can be installed on: upgrade it first", info.GitVersion, oldest)
	}
	return nil
}

// Kinds with special handling.
func namespaceKind() schema.GroupKind { return schema.GroupKind{Kind: "Namespace"} }
func definitionKind() schema.GroupKind {
	return schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}
func deploymentKind() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "Deployment"} }

// IsDefinition reports whether an object is a CustomResourceDefinition.
func IsDefinition(obj *unstructured.Unstructured) bool { return is(obj, definitionKind()) }

func is(obj *unstructured.Unstructured, kind schema.GroupKind) bool {
	return obj.GroupVersionKind().GroupKind() == kind
}

// All writes objects unchanged. An object that exists gets the fields that are specified,
// and keeps the others. It stops at the first object that cannot be written.
func (c *Cluster) All(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		ctx := writing(ctx, obj)
		if err := c.patiently(ctx, func() error { return c.one(ctx, obj) }); err != nil {
			return err
		}
	}
	return nil
}

// written is the key of the name of the object that a request writes.
type written struct{}

func writing(ctx context.Context, obj *unstructured.Unstructured) context.Context {
	return context.WithValue(ctx, written{}, Name(obj))
}

// Written names the object that a request of a Cluster writes, for warnings of the API
// server: many, such as those of definitions, name a field alone. It is empty for
// other requests.
func Written(ctx context.Context) string {
	name, _ := ctx.Value(written{}).(string)
	return name
}

func (c *Cluster) one(ctx context.Context, obj *unstructured.Unstructured) error {
	err := c.mgmt.Create(ctx, obj.DeepCopy(), client.FieldOwner(fieldOwner))
	if apierrors.IsAlreadyExists(err) {
		err = c.update(ctx, obj)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", Name(obj), err)
	}
	return nil
}

// update changes an existing object to the desired state. Fields that are not specified
// stay: the authority in a definition is injected by other controllers.
func (c *Cluster) update(ctx context.Context, obj *unstructured.Unstructured, opts ...client.PatchOption) error {
	patch, err := mergePatch(obj)
	if err != nil {
		return err
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(obj.GroupVersionKind())
	live.SetNamespace(obj.GetNamespace())
	live.SetName(obj.GetName())
	err = c.mgmt.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), append(opts, client.FieldOwner(fieldOwner))...)
	if err == nil && live.GetDeletionTimestamp() != nil {
		return errGoing
	}
	return err
}

// errGoing means that an object with the name of a desired one is being deleted.
var errGoing = errors.New("one of that name is still being deleted: say the same again when it is gone")

func mergePatch(obj *unstructured.Unstructured) ([]byte, error) {
	obj = obj.DeepCopy()
	delete(obj.Object, "status")
	obj.SetResourceVersion("")
	if IsDefinition(obj) {
		strategy, _, err := contract.At[string]("spec.conversion.strategy").Get(obj)
		if err != nil {
			return nil, err
		}
		if strategy != "Webhook" { // a conversion webhook of an earlier release must not remain
			if err := contract.At[map[string]any]("spec.conversion").Set(obj, map[string]any{"strategy": "None", "webhook": nil}); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(obj)
}

// patiently retries what fails because a component is not ready yet, or because the API
// server is busy.
func (c *Cluster) patiently(ctx context.Context, try func() error) error {
	backoff := c.patience
	for {
		err := try()
		if err == nil || !passes(err) || backoff.Steps == 0 {
			return err
		}
		if lifecycle.Sleep(ctx, backoff.Step()) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// passes reports whether an error may be transient.
func passes(err error) bool {
	return errors.Is(err, errGoing) || meta.IsNoMatchError(err) || apierrors.IsConflict(err) || apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}

// Name is kind, namespace and name of an object, for people.
func Name(obj *unstructured.Unstructured) string {
	if obj.GetNamespace() == "" {
		return obj.GetKind() + " " + obj.GetName()
	}
	return obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
}
