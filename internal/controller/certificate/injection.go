// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/certificate"
)

// injectionManager is the field manager of injected authorities.
const injectionManager = "capstan-cainjection"

// errAwaited means that the user has nothing to correct: the object may still be
// created.
var errAwaited = errors.New("there is none yet")

// InjectedKinds are the kinds in which authorities are injected, each with a name for its
// controller.
func InjectedKinds() map[string]schema.GroupVersionKind {
	return map[string]schema.GroupVersionKind{
		"cainjection-validating": {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		"cainjection-mutating":   {Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
		"cainjection-crd":        {Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		"cainjection-apiservice": {Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
	}
}

// InjectedObject returns an empty object of a kind, of which only the metadata is read.
func InjectedObject(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// InjectionReconciler has what the controller needs from outside. All fields but Secrets and
// APIServer are required; Setup checks them.
type InjectionReconciler struct {
	Name     string
	Kind     schema.GroupVersionKind
	Mgmt     client.Client // the management cluster
	Live     client.Reader // the same, past the cache: it holds neither Secrets nor more than metadata
	Recorder events.EventRecorder
	// Secrets watches the Secrets that have authorities; nil watches none.
	Secrets *secretwatch.Follower
	// APIServer is the authority of the API server, in PEM.
	APIServer []byte
}

// Setup registers the controller.
func (r *InjectionReconciler) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Name == "" || r.Kind.Kind == "" || r.Mgmt == nil || r.Live == nil || r.Recorder == nil {
		return errors.New("cainjection: Name, Kind, Mgmt, Live and Recorder are required")
	}
	wanted := predicate.NewPredicateFuncs(func(obj client.Object) bool { return certificate.Wanted(obj.GetAnnotations()) })
	return controller.For(mgr, r.Name, InjectedObject(r.Kind), wanted).Unfiltered().
		Watches(&certmanagerv1.Certificate{}, r.named, predicate.GenerationChangedPredicate{}).
		WatchesSource(source.Func(r.Secrets.Start)).
		Concurrency(1). // they all wait for one API server, which does the work
		Complete(r)
}

// named returns requests for the objects that request the authority of a
// Certificate.
func (r *InjectionReconciler) named(ctx context.Context, of client.Object) (all []reconcile.Request) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(r.Kind.GroupVersion().WithKind(r.Kind.Kind + "List"))
	if err := r.Mgmt.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Waking what wants the authority of a Certificate")
		return nil
	}
	for i := range list.Items {
		key := client.ObjectKeyFromObject(&list.Items[i])
		if s, err := certificate.SourceOf(list.Items[i].Annotations); err == nil && s.Certificate == client.ObjectKeyFromObject(of) {
			all = append(all, reconcile.Request{NamespacedName: key})
		}
	}
	return all
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *InjectionReconciler) Reconcile(ctx context.Context, seen *metav1.PartialObjectMetadata) (ctrl.Result, error) {
	honoured, err := issuersHonoured(ctx, r.Mgmt)
	if err != nil || !honoured || !seen.DeletionTimestamp.IsZero() || !certificate.Wanted(seen.Annotations) {
		r.Secrets.Follow(client.ObjectKeyFromObject(seen))
		return ctrl.Result{}, err
	}
	bundle, problem, err := r.authority(ctx, seen)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != nil { // the awaited object, or a change of the annotation, triggers a reconcile
		ctrl.LoggerFrom(ctx).V(2).Info("Injecting no certificate authority", "reason", problem.Error())
		if errors.Is(problem, errAwaited) {
			return ctrl.Result{}, nil
		}
		r.Recorder.Eventf(seen, nil, corev1.EventTypeWarning, "NotInjected", "Inject", "no certificate authority is injected: %s", problem)
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.inject(ctx, seen, bundle)
}

// authority returns the authority that the object requests, or why there is none.
func (r *InjectionReconciler) authority(ctx context.Context, seen *metav1.PartialObjectMetadata) (bundle []byte, problem, err error) {
	from, problem := certificate.SourceOf(seen.Annotations)
	if problem != nil {
		r.Secrets.Follow(client.ObjectKeyFromObject(seen))
		return nil, problem, nil
	}
	if from.APIServer {
		if len(r.APIServer) == 0 {
			return nil, errors.New("that of the API server is not known"), nil
		}
		return r.APIServer, nil, nil
	}
	key := from.Secret
	if from.Certificate.Name != "" {
		c := &certmanagerv1.Certificate{}
		if err := r.Mgmt.Get(ctx, from.Certificate, c); apierrors.IsNotFound(err) {
			r.Secrets.Follow(client.ObjectKeyFromObject(seen))
			return nil, fmt.Errorf("%w: Certificate %s", errAwaited, from.Certificate), nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("get Certificate %s: %w", from.Certificate, err)
		}
		key = client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.SecretName}
	}
	r.Secrets.Follow(client.ObjectKeyFromObject(seen), key) // before it is read: no change is missed
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: Secret %s", errAwaited, key), nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	bundle, problem = from.Authority(key, secret)
	return bundle, problem, nil
}

// inject writes the authority to the object if it differs. A concurrent write of
// another client causes a conflict.
func (r *InjectionReconciler) inject(ctx context.Context, seen *metav1.PartialObjectMetadata, bundle []byte) error {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(r.Kind)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen), obj); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("get %s %s: %w", r.Kind.Kind, seen.Name, err))
	}
	if !certificate.Inject(obj.Object, bundle) {
		return nil
	}
	ctrl.LoggerFrom(ctx).Info("Injecting a certificate authority")
	if err := r.Mgmt.Update(ctx, obj, client.FieldOwner(injectionManager)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("inject a certificate authority into %s %s: %w", r.Kind.Kind, seen.Name, err))
	}
	return nil
}

// Forget stops watching the Secrets of a deleted object.
func (r *InjectionReconciler) Forget(key client.ObjectKey) { r.Secrets.Follow(key) }
