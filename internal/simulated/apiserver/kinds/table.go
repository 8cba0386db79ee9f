// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// served has one line for each resource, in the order of discovery:
// group/version, kind, plural, and what is special about it:
//
//	ns        in a namespace
//	status    has a status subresource
//	scale     has a scale subresource
//	gen       counts generations
//	all       belongs to the category "all"
//	virtual   only answers questions
//	short=a   may be called a
//	cat=a     belongs to the category a
//	verbs=a,b all that can be done with it
//	as=v      is kept as the kind of the same name in group/version v
const served = `
v1 Binding bindings ns virtual
v1 ComponentStatus componentstatuses short=cs verbs=get,list
v1 ConfigMap configmaps ns short=cm
v1 Endpoints endpoints ns short=ep
v1 Event events ns short=ev
v1 LimitRange limitranges ns short=limits
v1 Namespace namespaces status short=ns verbs=create,delete,get,list,patch,update,watch
v1 Node nodes status short=no
v1 PersistentVolumeClaim persistentvolumeclaims ns status short=pvc
v1 PersistentVolume persistentvolumes status short=pv
v1 Pod pods ns status gen all short=po
v1 PodTemplate podtemplates ns
v1 ReplicationController replicationcontrollers ns status scale gen all short=rc
v1 ResourceQuota resourcequotas ns status short=quota
v1 Secret secrets ns
v1 ServiceAccount serviceaccounts ns short=sa
v1 Service services ns status all short=svc
apiregistration.k8s.io/v1 APIService apiservices status cat=api-extensions
apps/v1 ControllerRevision controllerrevisions ns
apps/v1 DaemonSet daemonsets ns status gen all short=ds
apps/v1 Deployment deployments ns status scale gen all short=deploy
apps/v1 ReplicaSet replicasets ns status scale gen all short=rs
apps/v1 StatefulSet statefulsets ns status scale gen all short=sts
events.k8s.io/v1 Event events ns short=ev as=v1
authentication.k8s.io/v1 SelfSubjectReview selfsubjectreviews virtual
authentication.k8s.io/v1 TokenReview tokenreviews virtual
authorization.k8s.io/v1 LocalSubjectAccessReview localsubjectaccessreviews ns virtual
authorization.k8s.io/v1 SelfSubjectAccessReview selfsubjectaccessreviews virtual
authorization.k8s.io/v1 SelfSubjectRulesReview selfsubjectrulesreviews virtual
authorization.k8s.io/v1 SubjectAccessReview subjectaccessreviews virtual
autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers ns status all short=hpa
autoscaling/v1 HorizontalPodAutoscaler horizontalpodautoscalers ns status all short=hpa as=autoscaling/v2
batch/v1 CronJob cronjobs ns status gen all short=cj
batch/v1 Job jobs ns status gen all
certificates.k8s.io/v1 CertificateSigningRequest certificatesigningrequests status short=csr
networking.k8s.io/v1 IngressClass ingressclasses gen
networking.k8s.io/v1 Ingress ingresses ns status gen short=ing
networking.k8s.io/v1 IPAddress ipaddresses short=ip
networking.k8s.io/v1 NetworkPolicy networkpolicies ns gen short=netpol
networking.k8s.io/v1 ServiceCIDR servicecidrs status
policy/v1 PodDisruptionBudget poddisruptionbudgets ns status gen short=pdb
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings
rbac.authorization.k8s.io/v1 ClusterRole clusterroles
rbac.authorization.k8s.io/v1 RoleBinding rolebindings ns
rbac.authorization.k8s.io/v1 Role roles ns
storage.k8s.io/v1 CSIDriver csidrivers
storage.k8s.io/v1 CSINode csinodes
storage.k8s.io/v1 CSIStorageCapacity csistoragecapacities ns
storage.k8s.io/v1 StorageClass storageclasses short=sc
storage.k8s.io/v1 VolumeAttachment volumeattachments status
storage.k8s.io/v1 VolumeAttributesClass volumeattributesclasses short=vac
admissionregistration.k8s.io/v1 MutatingAdmissionPolicy mutatingadmissionpolicies gen cat=api-extensions
admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings gen cat=api-extensions
admissionregistration.k8s.io/v1 MutatingWebhookConfiguration mutatingwebhookconfigurations gen cat=api-extensions
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy validatingadmissionpolicies status gen cat=api-extensions
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings gen cat=api-extensions
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration validatingwebhookconfigurations gen cat=api-extensions
apiextensions.k8s.io/v1 CustomResourceDefinition customresourcedefinitions status gen short=crd short=crds cat=api-extensions
scheduling.k8s.io/v1 PriorityClass priorityclasses gen short=pc
coordination.k8s.io/v1 Lease leases ns
node.k8s.io/v1 RuntimeClass runtimeclasses
discovery.k8s.io/v1 EndpointSlice endpointslices ns
resource.k8s.io/v1 DeviceClass deviceclasses gen
resource.k8s.io/v1 ResourceClaim resourceclaims ns status
resource.k8s.io/v1 ResourceClaimTemplate resourceclaimtemplates ns
resource.k8s.io/v1 ResourceSlice resourceslices gen
flowcontrol.apiserver.k8s.io/v1 FlowSchema flowschemas status gen
flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration prioritylevelconfigurations status gen
`

var (
	readWrite = []string{"get", "patch", "update"}
	proxied   = []string{"create", "delete", "get", "patch", "update"}
)

func core(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Version: "v1", Kind: kind}
}

var subresources = map[string][]Subresource{
	"nodes": {{"proxy", core("NodeProxyOptions"), proxied}},
	"pods": {
		{"attach", core("PodAttachOptions"), []string{"create", "get"}},
		{"binding", core("Binding"), []string{"create"}},
		{"ephemeralcontainers", core("Pod"), readWrite},
		{"eviction", schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, []string{"create"}},
		{"exec", core("PodExecOptions"), []string{"create", "get"}},
		{"log", core("Pod"), []string{"get"}},
		{"portforward", core("PodPortForwardOptions"), []string{"create", "get"}},
		{"proxy", core("PodProxyOptions"), proxied},
		{"resize", core("Pod"), readWrite},
	},
	"services": {{"proxy", core("ServiceProxyOptions"), proxied}},
	"serviceaccounts": {
		{"token", schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}, []string{"create"}},
	},
	"namespaces": {
		{"finalize", core("Namespace"), []string{"update"}},
	},
	"certificatesigningrequests": {
		{"approval", schema.GroupVersionKind{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"}, readWrite},
	},
}

func build() []*Kind {
	var kinds []*Kind
	for line := range strings.Lines(served) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		k := &Kind{GroupVersionKind: groupVersion(f[0]).WithKind(f[1]), Resource: f[2], Subs: subresources[f[2]], List: f[1] + "List", Verbs: verbs, singular: strings.ToLower(f[1])}
		k.StoredAs, k.stored = k.GroupVersionKind, k.GroupResource()
		is := func(word string) bool { return slices.Contains(f[3:], word) }
		k.Namespaced, k.Status, k.Scale = is("ns"), is("status"), is("scale")
		k.Generation, k.Virtual = is("gen"), is("virtual")
		if k.Virtual {
			k.Verbs = []string{"create"}
		}
		if is("all") {
			k.Categories = []string{"all"}
		}
		for _, word := range f[3:] {
			switch what, value, _ := strings.Cut(word, "="); what {
			case "short":
				k.Short = append(k.Short, value)
			case "cat":
				k.Categories = append(k.Categories, value)
			case "verbs":
				k.Verbs = strings.Split(value, ",")
			case "as":
				k.StoredAs = groupVersion(value).WithKind(k.Kind)
				k.stored = schema.GroupResource{Group: k.StoredAs.Group, Resource: k.Resource}
			}
		}
		kinds = append(kinds, k)
	}
	return kinds
}

func groupVersion(text string) schema.GroupVersion {
	gv, err := schema.ParseGroupVersion(text)
	if err != nil {
		panic(err)
	}
	return gv
}
