// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

// app is a Pod on node n that refers to something in each way there is.
func app() *corev1.Pod {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	volume := func(name string, s corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: s}
	}
	return &corev1.Pod{ObjectMeta: meta("app"), Spec: corev1.PodSpec{
		NodeName: "n", ServiceAccountName: "worker", ImagePullSecrets: []corev1.LocalObjectReference{local("pull")},
		NodeSelector: map[string]string{"secretName": "chosen"},
		Volumes: []corev1.Volume{
			volume("s", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}),
			volume("c", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("volume")}}),
			volume("p", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: local("projected")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("projected")}},
			}}}),
			volume("d", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.example.com", NodePublishSecretRef: new(local("driver"))}}),
			volume("v", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}),
		},
		InitContainers: []corev1.Container{{Name: "i", Image: "v1", EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("all-env")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("all-env")}},
		}}},
		Containers: []corev1.Container{{Name: "c", Image: "v1", Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "a", LocalObjectReference: local("env")}}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "b", LocalObjectReference: local("env")}}},
		}}},
	}}
}

func authorizer(t *testing.T) *access.Authorizer {
	t.Helper()
	store, err := objects.Open(objects.Options{Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := &corev1.Pod{ObjectMeta: meta("elsewhere"), Spec: corev1.PodSpec{
		NodeName: "m", ServiceAccountName: "other", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "others"}}, Containers: []corev1.Container{{Name: "c", Image: "v1"}},
	}}
	static := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "etcd-n", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
	}
	volume := corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, Capacity: corev1.ResourceList{"storage": {}}}
	for _, obj := range []objects.Object{
		app(), elsewhere, static,
		&corev1.PersistentVolumeClaim{ObjectMeta: meta("claim"), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "disk"}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: volume},
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n"}},
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "there"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "m"}},
	} {
		if err := store.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	return access.NewAuthorizer(store)
}

// ask parses attributes from "verbs group/resource/sub namespace/name", one for
// each verb; a group is omitted for the core one.
func ask(t *testing.T, text string) []access.Attributes {
	t.Helper()
	f := strings.Fields(text)
	if len(f) != 3 {
		t.Fatalf("%q has not three words", text)
	}
	var out []access.Attributes
	for verb := range strings.SplitSeq(f[0], ",") {
		a := access.Attributes{Verb: verb}
		a.Resource, a.Sub, _ = strings.Cut(f[1], "/")
		a.Resource, a.Group, _ = strings.Cut(a.Resource, ".")
		a.Namespace, a.Name, _ = strings.Cut(f[2], "/")
		out = append(out, a)
	}
	return out
}

func TestAKubeletMayWhatItsNodeNeeds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		asks []string
		want bool
	}{
		"its Node":                           {[]string{"get,list,watch,update,patch nodes /n", "update,patch nodes/status /n", "create nodes /"}, true},
		"other Nodes":                        {[]string{"get,list,watch,update,patch nodes /m", "update,patch nodes/status /m", "list,watch nodes /", "delete,deletecollection nodes /n", "delete nodes /m"}, false},
		"its Lease":                          {[]string{"get,update,patch,delete leases.coordination.k8s.io kube-node-lease/n", "create leases.coordination.k8s.io kube-node-lease/"}, true},
		"other Leases":                       {[]string{"get,update,patch,delete leases.coordination.k8s.io kube-node-lease/m", "get,update leases.coordination.k8s.io kube-system/n", "create leases.coordination.k8s.io kube-system/", "list,watch leases.coordination.k8s.io kube-node-lease/"}, false},
		"Pods bound to it":                   {[]string{"get,list,watch,delete pods default/app", "update,patch pods/status default/app", "create pods/eviction default/app", "create pods default/"}, true},
		"changing what Pods bound to it do":  {[]string{"update,patch pods default/app", "get,create pods/portforward default/app", "deletecollection pods default/"}, false},
		"Pods of other nodes":                {[]string{"get,list,watch,delete pods default/elsewhere", "update,patch pods/status default/elsewhere", "create pods/eviction default/elsewhere", "get pods default/missing"}, false},
		"all Pods":                           {[]string{"list,watch pods default/", "list,watch pods /"}, false},
		"Secrets of its Pods":                {[]string{"get,list,watch secrets default/volume", "get secrets default/projected", "get secrets default/driver", "get secrets default/all-env", "get secrets default/env", "get secrets default/pull"}, true},
		"other Secrets":                      {[]string{"get,list,watch secrets default/others", "get secrets default/chosen", "get secrets kube-system/volume", "list,watch secrets default/", "list secrets /", "update,patch,delete secrets default/volume", "create secrets default/"}, false},
		"ConfigMaps of its Pods":             {[]string{"get,list,watch configmaps default/volume", "get configmaps default/projected", "get configmaps default/all-env", "get configmaps default/env"}, true},
		"other ConfigMaps":                   {[]string{"get configmaps default/pull", "list,watch configmaps default/", "get configmaps kube-system/volume", "update configmaps default/volume"}, false},
		"claims and volumes of its Pods":     {[]string{"get persistentvolumeclaims default/claim", "update,patch persistentvolumeclaims/status default/claim", "get persistentvolumes /disk", "get volumeattachments.storage.k8s.io /here"}, true},
		"other claims and volumes":           {[]string{"get persistentvolumeclaims default/other", "list persistentvolumeclaims default/", "get persistentvolumes /other", "list persistentvolumes /", "get volumeattachments.storage.k8s.io /there", "list volumeattachments.storage.k8s.io /"}, false},
		"tokens for accounts of its Pods":    {[]string{"create serviceaccounts/token default/worker"}, true},
		"tokens for others":                  {[]string{"create serviceaccounts/token default/other", "create serviceaccounts/token default/default", "create serviceaccounts/token kube-system/default", "create serviceaccounts/token kube-system/worker", "create serviceaccounts default/"}, false},
		"its CSINode":                        {[]string{"get,update,patch,delete csinodes.storage.k8s.io /n", "create csinodes.storage.k8s.io /"}, true},
		"other CSINodes":                     {[]string{"get,update,patch,delete csinodes.storage.k8s.io /m"}, false},
		"what every kubelet may":             {[]string{"list,watch services /", "create,patch events default/x", "list,watch csidrivers.storage.k8s.io /", "create,get,list,watch certificatesigningrequests.certificates.k8s.io /", "create tokenreviews.authentication.k8s.io /", "create subjectaccessreviews.authorization.k8s.io /"}, true},
		"rights, and approving certificates": {[]string{"get,list roles.rbac.authorization.k8s.io default/", "create clusterrolebindings.rbac.authorization.k8s.io /", "update certificatesigningrequests/approval.certificates.k8s.io /x", "update services default/x"}, false},
	}
	z := authorizer(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, text := range tc.asks {
				for _, a := range ask(t, text) {
					if got := z.May(access.Proven("system:node:n", "", access.Nodes), a); got != tc.want {
						t.Errorf("%s %v/%s: %v, want %v", a.Verb, a, a.Name, got, tc.want)
					}
				}
			}
		})
	}
	own := access.Attributes{Verb: "list", Resource: "pods", NodeName: "n"}
	if !z.May(access.Proven("system:node:n", "", access.Nodes), own) || z.May(access.Proven("system:node:m", "", access.Nodes), own) {
		t.Error("a list of Pods is for the node that they are selected by, and for no other")
	}
}

func TestOnlyTheNameAndTheGroupMakeAKubelet(t *testing.T) {
	t.Parallel()
	z := authorizer(t)
	for name, user := range map[string]access.User{
		"a name without the group":  access.Proven("system:node:n", ""),
		"the group with no node":    access.Proven("system:node:", "", access.Nodes),
		"the group with any name":   access.Proven("jane", "", access.Nodes),
		"a machine that is joining": access.Proven("system:bootstrap:abcdef", "", access.Bootstrappers),
	} {
		for _, text := range []string{"get secrets default/volume", "list secrets default/", "update nodes /n", "create pods default/", "create nodes /", "create serviceaccounts/token default/worker", "list services /"} {
			if a := ask(t, text)[0]; z.May(user, a) {
				t.Errorf("%s may %s", name, text)
			}
		}
	}
}
