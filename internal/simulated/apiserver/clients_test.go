// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var nodesGVR = corev1.SchemeGroupVersion.WithResource("nodes")

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": name}}}
}

func TestATypedClientSeesWhatItWrites(t *testing.T) {
	t.Parallel()
	for name, contentType := range map[string]string{"in JSON": "application/json", "in protobuf": "application/vnd.kubernetes.protobuf"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := start(t).admin(t)
			cfg.ContentType = contentType
			nodes := clientset(t, cfg).CoreV1().Nodes()

			made, err := nodes.Create(t.Context(), node("n1"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if made.UID == "" || made.ResourceVersion == "" || made.CreationTimestamp.IsZero() {
				t.Errorf("created without identity: %+v", made.ObjectMeta)
			}
			made.Spec.ProviderID = "simulated://ns/c/m"
			made.Status.Phase = corev1.NodeRunning
			changed, err := nodes.Update(t.Context(), made, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if changed.Spec.ProviderID == "" || changed.Status.Phase != "" {
				t.Errorf("an update of the object must write its spec and leave its status: %+v %+v", changed.Spec, changed.Status)
			}
			changed.Status.Phase, changed.Spec.Unschedulable = corev1.NodeRunning, true
			changed, err = nodes.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if changed.Spec.Unschedulable || changed.Status.Phase != corev1.NodeRunning {
				t.Errorf("an update of the status must leave the spec: %+v %+v", changed.Spec, changed.Status)
			}
			if _, err := nodes.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("an update of an old version: %v, want a conflict", err)
			}
			if _, err := nodes.Create(t.Context(), node("n1"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("a second creation: %v, want already exists", err)
			}
			if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(types.UID("other"))}}); !apierrors.IsConflict(err) {
				t.Errorf("a deletion of another: %v, want a conflict", err)
			}
			if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := nodes.Get(t.Context(), "n1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("after deletion: %v, want not found", err)
			}
		})
	}
}

func TestAWriteThatChangesNothingMakesNoVersion(t *testing.T) {
	t.Parallel()
	nodes := clientset(t, start(t).admin(t)).CoreV1().Nodes()
	made, err := nodes.Create(t.Context(), node("n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patched, err := nodes.Patch(t.Context(), "n1", types.MergePatchType, []byte(`{"metadata":{"labels":{"pool":"n1"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if patched.ResourceVersion != made.ResourceVersion {
		t.Errorf("version %s became %s", made.ResourceVersion, patched.ResourceVersion)
	}
}

func TestPatchesOfEachKindChangeTheObject(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		form  types.PatchType
		patch string
		want  []string
	}{
		"a JSON patch replaces a path":           {types.JSONPatchType, `[{"op":"replace","path":"/metadata/finalizers/0","value":"x/b"}]`, []string{"x/b"}},
		"a merge patch replaces the list":        {types.MergePatchType, `{"metadata":{"finalizers":["x/b"]}}`, []string{"x/b"}},
		"a strategic patch merges the list":      {types.StrategicMergePatchType, `{"metadata":{"finalizers":["x/b"]}}`, []string{"x/a", "x/b"}},
		"a strategic patch deletes on directive": {types.StrategicMergePatchType, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"]}}`, nil},
	}
	nodes := clientset(t, start(t).admin(t)).CoreV1().Nodes()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			n := node("")
			n.GenerateName, n.Finalizers = "n-", []string{"x/a"}
			n, err := nodes.Create(t.Context(), n, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			n, err = nodes.Patch(t.Context(), n.Name, tc.form, []byte(tc.patch), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(n.Finalizers)
			if diff := cmp.Diff(tc.want, n.Finalizers, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPatchThatNamesAVersionConflictsWithALaterOne(t *testing.T) {
	t.Parallel()
	nodes := clientset(t, start(t).admin(t)).CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), node("n1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := nodes.Patch(t.Context(), "n1", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1","labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
	_, err = nodes.Patch(t.Context(), "n1", types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/name","value":"n2"}]`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) && apierrors.ReasonForError(err) != metav1.StatusReasonInvalid {
		t.Errorf("a test that fails: %v, want invalid", err)
	}
}

func TestListsSelectAndPage(t *testing.T) {
	t.Parallel()
	c := start(t)
	cs := clientset(t, c.admin(t))
	for _, name := range []string{"a", "b", "c"} {
		n := node(name)
		n.Spec.ProviderID = "id-" + name
		if err := c.Store().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		options metav1.ListOptions
		want    []string
	}{
		"everything":            {metav1.ListOptions{}, []string{"a", "b", "c"}},
		"by label":              {metav1.ListOptions{LabelSelector: "pool in (a,c)"}, []string{"a", "c"}},
		"by name":               {metav1.ListOptions{FieldSelector: "metadata.name=b"}, []string{"b"}},
		"by a field":            {metav1.ListOptions{FieldSelector: "spec.providerID=id-b"}, []string{"b"}},
		"by a part of a value":  {metav1.ListOptions{FieldSelector: "spec.providerID=id"}, nil},
		"by a value of none":    {metav1.ListOptions{FieldSelector: "spec.providerID=id-x"}, nil},
		"by a field, not equal": {metav1.ListOptions{FieldSelector: "spec.providerID!=id-b"}, []string{"a", "c"}},
		"by a zero value":       {metav1.ListOptions{FieldSelector: "spec.unschedulable=false", LabelSelector: "pool=a"}, []string{"a"}},
		"at most two":           {metav1.ListOptions{Limit: 2}, []string{"a", "b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			list, err := cs.CoreV1().Nodes().List(t.Context(), tc.options)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range list.Items {
				got = append(got, n.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
	first, err := cs.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := cs.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	if err != nil || len(rest.Items) != 1 || rest.Items[0].Name != "c" || rest.ResourceVersion != first.ResourceVersion {
		t.Errorf("second page %v, error %v", rest, err)
	}
	if _, err := cs.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.podCIDR=x"}); !apierrors.IsBadRequest(err) {
		t.Errorf("by a field that cannot be selected by: %v, want a bad request", err)
	}
}

func TestDynamicAndMetadataClients(t *testing.T) {
	t.Parallel()
	cfg := start(t).admin(t)
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d", "labels": map[string]any{"x": "y"}},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}},
		},
	}}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	made, err := dyn.Resource(deployments).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(made.Object, "spec", "replicas"); n != 1 || made.GetGeneration() != 1 {
		t.Errorf("replicas %d, generation %d, want the defaults 1 and 1", n, made.GetGeneration())
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	list, err := meta.Resource(deployments).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Labels["x"] != "y" {
		t.Errorf("metadata %+v", list.Items)
	}
}

func TestScaleChangesReplicasAlone(t *testing.T) {
	t.Parallel()
	c := start(t)
	if err := c.Store().Add(deployment("d")); err != nil {
		t.Fatal(err)
	}
	deployments := clientset(t, c.admin(t)).AppsV1().Deployments("default")
	sc, err := deployments.GetScale(t.Context(), "d", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sc.Spec.Replicas = 4
	if _, err := deployments.UpdateScale(t.Context(), "d", sc, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.UpdateScale(t.Context(), "d", sc, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an old scale: %v, want a conflict", err)
	}
	for form, patch := range map[types.PatchType]string{
		types.MergePatchType:          `{"spec":{"replicas":5}}`,
		types.JSONPatchType:           `[{"op":"replace","path":"/spec/replicas","value":5}]`,
		types.StrategicMergePatchType: `{"spec":{"replicas":5}}`,
	} {
		if d, err := deployments.Patch(t.Context(), "d", form, []byte(patch), metav1.PatchOptions{}, "scale"); err != nil {
			t.Errorf("%s: %+v, error %v", form, d, err)
		}
	}
	d, err := deployments.Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 5 || d.Generation != 3 || d.Spec.Template.Spec.Containers[0].Image != "i" {
		t.Errorf("deployment %+v, error %v", d, err)
	}
}

func TestACacheFollowsTheServer(t *testing.T) {
	t.Parallel()
	c := start(t)
	cfg := c.admin(t)
	if err := c.Store().Add(node("before")); err != nil {
		t.Fatal(err)
	}
	byID := func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }
	ca, err := cache.New(cfg, cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.IndexField(t.Context(), &corev1.Node{}, "spec.providerID", byID); err != nil {
		t.Fatal(err)
	}
	informer, err := ca.GetInformer(t.Context(), &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen <- "add " + o.(*corev1.Node).Name },
		UpdateFunc: func(_, o any) { seen <- "update " + o.(*corev1.Node).Name },
		DeleteFunc: func(o any) { seen <- "delete " + o.(*corev1.Node).Name },
	}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = ca.Start(t.Context()) }()
	if !ca.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not sync")
	}
	direct, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	after := node("after")
	if err := direct.Create(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	before := after.DeepCopy()
	after.Spec.ProviderID = "id"
	if err := direct.Patch(t.Context(), after, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := direct.Delete(t.Context(), node("before")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"add before", "add after", "update after", "delete before"} {
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("saw %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("did not see %q", want)
		}
	}
	var list corev1.NodeList
	if err := ca.List(t.Context(), &list, client.MatchingFields{"spec.providerID": "id"}); err != nil || len(list.Items) != 1 {
		t.Errorf("by provider ID: %d nodes, error %v", len(list.Items), err)
	}
}

func TestWritersThatRetryOnConflictAllGetThrough(t *testing.T) {
	t.Parallel()
	c := start(t)
	if err := c.Store().Add(node("n")); err != nil {
		t.Fatal(err)
	}
	nodes := clientset(t, c.admin(t)).CoreV1().Nodes()
	const writers = 8
	errs := make(chan error, writers)
	for i := range writers {
		go func() {
			errs <- retry.RetryOnConflict(wait.Backoff{Steps: 1000, Duration: time.Millisecond}, func() error {
				n, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
				if err != nil {
					return err
				}
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, string(rune('a'+i)), "x")
				_, err = nodes.Update(t.Context(), n, metav1.UpdateOptions{})
				return err
			})
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	n, err := nodes.Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil || len(n.Annotations) != writers {
		t.Errorf("%d annotations, error %v, want %d", len(n.Annotations), err, writers)
	}
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}
