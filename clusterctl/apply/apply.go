// SPDX-License-Identifier: Apache-2.0

// Package apply writes the components of providers to a management cluster, and takes
// them away: it checks all before it writes the first, and whoever was interrupted
// goes on by doing the same again.
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
)

// oldest is the oldest Kubernetes that components are written to. An older API server
// takes definitions and says nothing of the rules in them (CEL) that it does not hold.
const oldest = "v1.25.0"

// fieldOwner is whom the API server notes for the fields that are written here.
const fieldOwner = "capstan"

// Cluster is a management cluster that components are written to.
type Cluster struct {
	mgmt     client.Client
	kinds    Discovery
	patience wait.Backoff
}

// Discovery tells what an API server is, and lists the kinds that it serves; a discovery
// client does.
type Discovery interface {
	ServerPreferredResources() ([]*metav1.APIResourceList, error)
	ServerVersion() (*apimachineryversion.Info, error)
}

// New returns the management cluster behind cfg.
func New(cfg *rest.Config) (*Cluster, error) {
	scheme := runtime.NewScheme()
	// The one for who stores objects anew, the other for Pods.
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

// NewWithClient returns the management cluster that mgmt talks to, whose kinds are
// those that kinds lists. The scheme of mgmt knows CustomResourceDefinition.
func NewWithClient(mgmt client.Client, kinds Discovery) *Cluster {
	// A webhook that has just been installed, and a kind that is new, take some
	// seconds before they answer: half a minute in all, more often at first.
	return &Cluster{mgmt, kinds, wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.3, Steps: 17}}
}

// Client is what the cluster is written with.
func (c *Cluster) Client() client.Client { return c.mgmt }

// Supported refuses a management cluster whose Kubernetes is too old for what is to be
// written to it.
func (c *Cluster) Supported() error {
	info, err := c.kinds.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the management cluster for its version of Kubernetes: %w", err)
	}
	v, err := version.ParseGeneric(info.GitVersion) // some add a build of their own
	if err != nil {
		return fmt.Errorf("read the version of Kubernetes of the management cluster: %w", err)
	}
	if v.LessThan(version.MustParseGeneric(oldest)) {
		return fmt.Errorf("the management cluster runs Kubernetes %s, and %s is the oldest that providers can be installed on: upgrade it first", info.GitVersion, oldest)
	}
	return nil
}

// Kinds that are treated in a way of their own.
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

// All writes objects as they stand. One that is there already gets what is said of it,
// and keeps the rest. It stops at the first that cannot be written.
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

// update brings an object that is there to what is wanted. Fields that are not
// said stay: the authority in a definition is injected by others.
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

// errGoing says that an object with the name of a wanted one is being deleted.
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
		if strategy != "Webhook" { // what a webhook of an earlier release converted must not keep it
			if err := contract.At[map[string]any]("spec.conversion").Set(obj, map[string]any{"strategy": "None", "webhook": nil}); err != nil {
				return nil, err
			}
		}
	}
	return json.Marshal(obj)
}

// patiently tries again what fails because something has not come up yet, or because
// the API server is busy.
func (c *Cluster) patiently(ctx context.Context, try func() error) error {
	backoff := c.patience
	for {
		err := try()
		if err == nil || !passes(err) || backoff.Steps == 0 {
			return err
		}
		t := time.NewTimer(backoff.Step())
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// passes reports whether an error may be another, or none, in a moment.
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
