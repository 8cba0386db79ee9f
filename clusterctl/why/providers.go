// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/move"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// readBinding reads which ClusterResourceSets are applied to a Cluster; they are read with
// what it refers to.
func (r *evidence) readBinding(ctx context.Context, cluster *unstructured.Unstructured) error {
	gvk := addonsv1.GroupVersion().WithKind("ClusterResourceSetBinding")
	obj, err := r.Get(ctx, references.To(causes.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: cluster.GetNamespace(), Name: cluster.GetName()}))
	if obj != nil {
		r.add(obj)
	}
	return r.readable(err)
}

// readMove reads the journal of a move that has paused a Cluster.
func (r *evidence) readMove(ctx context.Context, cluster *unstructured.Unstructured) error {
	o := causes.Read(cluster)
	if o.Paused == "" {
		return nil
	}
	journal := &corev1.ConfigMap{}
	err := r.Mgmt.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: move.JournalName}, journal)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return r.readable(err)
	}
	var record move.Record
	text, err := sanitize.YAMLToJSON([]byte(journal.Data["journal"]))
	if err != nil || json.Unmarshal(text, &record) != nil || record.Operation == "" {
		return nil // a ConfigMap of a user
	}
	o.Mover = fmt.Sprintf("the move of namespace %s from %s to %s, which is in phase %s since %s", record.Namespace, record.From, record.To, record.Phase, record.Started.UTC().Format("2006-01-02T15:04:05Z"))
	r.put(o)
	return nil
}

// readProviders reads the Deployments of providers if an object of one is not ready, and the
// Pods of those that are not available.
func (r *evidence) readProviders(ctx context.Context) error {
	waiting := map[schema.GroupKind][]*causes.Object{}
	for _, o := range r.objects {
		role, _, _ := strings.Cut(o.Group, ".")
		list := conditions.List(o.Conditions)
		if (role == "infrastructure" || role == "bootstrap" || role == "controlplane") && !o.Missing && !strings.HasSuffix(o.Kind, "Template") &&
			!conditions.IsTrue(list, clusterv1.ReadyCondition) && !conditions.IsTrue(list, clusterv1.AvailableCondition) {
			kind := schema.GroupKind{Group: o.Group, Kind: o.Kind}
			waiting[kind] = append(waiting[kind], o)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	deployments, err := r.ListKind(ctx, appsv1.SchemeGroupVersion.WithKind("Deployment"), client.HasLabels{clusterv1.ProviderNameLabel})
	if err != nil {
		return r.readable(err)
	}
	providers := map[string]bool{}
	for kind, objects := range waiting {
		provider, labeled, err := r.providerOf(ctx, kind)
		if err := r.readable(err); err != nil {
			return err
		}
		for _, o := range objects {
			if o.Provider = provider; !labeled {
				o.Unset = append(o.Unset, causes.FieldLabel)
			}
		}
		providers[provider] = provider != ""
	}
	for i := range deployments {
		if !providers[deployments[i].GetLabels()[clusterv1.ProviderNameLabel]] {
			continue
		}
		if err := r.readPods(ctx, &deployments[i]); err != nil {
			return err
		}
	}
	return nil
}

// providerOf is the provider of a kind by the label of its CRD, or "", and whether the CRD
// has a label of the contract; it need not be a kind of a CRD, or of one that can be read.
func (r *evidence) providerOf(ctx context.Context, kind schema.GroupKind) (string, bool, error) {
	mapping, err := r.Mgmt.RESTMapper().RESTMapping(kind)
	if err != nil {
		return "", true, err
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := r.Mgmt.Get(ctx, client.ObjectKey{Name: mapping.Resource.GroupResource().String()}, crd); err != nil {
		return "", true, client.IgnoreNotFound(err)
	}
	_, _, err = contract.Choose(crd.Labels)
	return crd.Labels[clusterv1.ProviderNameLabel], err == nil, nil
}

// mostPods bounds the Pods of a Deployment that are read: they differ only in their names.
const mostPods = 10

// readPods adds a Deployment, and its Pods if it is not available.
func (r *evidence) readPods(ctx context.Context, deployment *unstructured.Unstructured) error {
	o := causes.Read(deployment)
	o.Provider = deployment.GetLabels()[clusterv1.ProviderNameLabel]
	if n, found, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas"); found && n == 0 {
		o.Conditions = []metav1.Condition{{Type: clusterv1.AvailableCondition, Status: metav1.ConditionFalse, Reason: "NoReplicas", Message: "spec.replicas is 0"}}
	}
	r.put(o)
	labels, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	if o.Available() || len(labels) == 0 {
		return nil
	}
	var pods corev1.PodList
	if err := r.Mgmt.List(ctx, &pods, client.InNamespace(o.Namespace), client.MatchingLabels(labels), client.Limit(mostPods)); err != nil {
		return r.readable(err)
	}
	for i := range pods.Items {
		r.put(causes.ReadPod(&pods.Items[i], o.UID))
	}
	return nil
}
