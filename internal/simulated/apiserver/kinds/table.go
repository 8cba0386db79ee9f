// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// served has one line for each resource: group/version, kind, plural, and
// what is special about it:
//
//	ns        in a namespace
//	status    has a status subresource
//	scale     has a scale subresource
//	gen       counts generations
//	all       belongs to the category "all"
//	virtual   only answers questions
//	short=a   may be called a
//	cat=a     belongs to the category a
const served = `
v1 Namespace namespaces status short=ns
v1 Node nodes status short=no
v1 Pod pods ns status gen all short=po
v1 Service services ns status all short=svc
v1 Endpoints endpoints ns short=ep
v1 ConfigMap configmaps ns short=cm
v1 Secret secrets ns
v1 ServiceAccount serviceaccounts ns short=sa
v1 Event events ns short=ev
v1 PersistentVolume persistentvolumes status short=pv
v1 PersistentVolumeClaim persistentvolumeclaims ns status short=pvc
v1 ReplicationController replicationcontrollers ns status scale gen all short=rc
v1 ResourceQuota resourcequotas ns status short=quota
v1 LimitRange limitranges ns short=limits
apps/v1 Deployment deployments ns status scale gen all short=deploy
apps/v1 DaemonSet daemonsets ns status gen all short=ds
apps/v1 ReplicaSet replicasets ns status scale gen all short=rs
apps/v1 StatefulSet statefulsets ns status scale gen all short=sts
apps/v1 ControllerRevision controllerrevisions ns
batch/v1 Job jobs ns status gen all
batch/v1 CronJob cronjobs ns status gen all short=cj
rbac.authorization.k8s.io/v1 ClusterRole clusterroles
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings
rbac.authorization.k8s.io/v1 Role roles ns
rbac.authorization.k8s.io/v1 RoleBinding rolebindings ns
coordination.k8s.io/v1 Lease leases ns
policy/v1 PodDisruptionBudget poddisruptionbudgets ns status gen short=pdb
storage.k8s.io/v1 StorageClass storageclasses short=sc
storage.k8s.io/v1 VolumeAttachment volumeattachments status
storage.k8s.io/v1 CSIDriver csidrivers
storage.k8s.io/v1 CSINode csinodes
apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions status gen short=crd short=crds cat=api-extensions
certificates.k8s.io/v1 CertificateSigningRequest certificatesigningrequests status short=csr
discovery.k8s.io/v1 EndpointSlice endpointslices ns
scheduling.k8s.io/v1 PriorityClass priorityclasses short=pc
networking.k8s.io/v1 NetworkPolicy networkpolicies ns gen short=netpol
networking.k8s.io/v1 Ingress ingresses ns status gen short=ing
networking.k8s.io/v1 IngressClass ingressclasses gen
authentication.k8s.io/v1 SelfSubjectReview selfsubjectreviews virtual
authentication.k8s.io/v1 TokenReview tokenreviews virtual
authorization.k8s.io/v1 SelfSubjectAccessReview selfsubjectaccessreviews virtual
authorization.k8s.io/v1 SubjectAccessReview subjectaccessreviews virtual
`

var subresources = map[string][]Subresource{
	"pods": {
		{"eviction", schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, []string{"create"}},
		{"portforward", schema.GroupVersionKind{Version: "v1", Kind: "PodPortForwardOptions"}, []string{"create", "get"}},
	},
	"serviceaccounts": {
		{"token", schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}, []string{"create"}},
	},
	"namespaces": {
		{"finalize", schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, []string{"update"}},
	},
	"certificatesigningrequests": {
		{"approval", schema.GroupVersionKind{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}, []string{"get", "patch", "update"}},
	},
}

func build() []*Kind {
	var kinds []*Kind
	for line := range strings.Lines(served) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		gv, err := schema.ParseGroupVersion(f[0])
		if err != nil {
			panic(err)
		}
		k := &Kind{GroupVersionKind: gv.WithKind(f[1]), Resource: f[2], Subs: subresources[f[2]], List: f[1] + "List", singular: strings.ToLower(f[1])}
		k.StoredAs, k.stored = k.GroupVersionKind, k.GroupResource()
		is := func(word string) bool { return slices.Contains(f[3:], word) }
		k.Namespaced, k.Status, k.Scale = is("ns"), is("status"), is("scale")
		k.Generation, k.Virtual = is("gen"), is("virtual")
		if is("all") {
			k.Categories = []string{"all"}
		}
		for _, word := range f[3:] {
			if short, ok := strings.CutPrefix(word, "short="); ok {
				k.Short = append(k.Short, short)
			}
			if category, ok := strings.CutPrefix(word, "cat="); ok {
				k.Categories = append(k.Categories, category)
			}
		}
		kinds = append(kinds, k)
	}
	return kinds
}
