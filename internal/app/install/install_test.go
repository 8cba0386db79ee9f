// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/kit/handlertransport"
	"github.com/capstan-dev/capstan/manifests"
)

// TestADefinitionThatStoppedHalfwayIsEstablished plays an API server that, as the
// real one, establishes a definition only after a change of it.
func TestADefinitionThatStoppedHalfwayIsEstablished(t *testing.T) {
	t.Parallel()
	all, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	halfway := all[0].DeepCopy()
	halfway.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
		{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
		{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "Installing"},
	}
	c := fake.NewSimpleClientset(halfway)
	c.PrependReactor("update", "customresourcedefinitions", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "status" {
			return false, nil, nil
		}
		crd := a.(clienttesting.UpdateAction).GetObject().(*apiextensionsv1.CustomResourceDefinition).DeepCopy()
		if equality.Semantic.DeepEqual(crd.Status, halfway.Status) {
			return true, crd, nil // it causes no event
		}
		crd.Status.Conditions[1].Status = apiextensionsv1.ConditionTrue
		return true, crd, c.Tracker().Update(a.GetResource(), crd, "")
	})
	fresh, err := installCRDs(t.Context(), c.ApiextensionsV1().CustomResourceDefinitions(), all[:1], convertInProcess)
	if err != nil || len(fresh) != 1 || fresh[0].Name != halfway.Name {
		t.Errorf("newly established: %v, error %v", fresh, err)
	}
}

// TestInstallWaitsWithoutPermissionToTouch covers a manager without permission to write the status
// of definitions: the API server of another establishes them.
func TestInstallWaitsWithoutPermissionToTouch(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "hosts.x.io"}}
	for name, refusal := range map[string]*apierrors.StatusError{
		"no right":       apierrors.NewForbidden(apiextensionsv1.Resource("customresourcedefinitions"), crd.Name, errors.New("no right")),
		"changed before": apierrors.NewConflict(apiextensionsv1.Resource("customresourcedefinitions"), crd.Name, errors.New("changed")),
	} {
		c := fake.NewSimpleClientset(crd)
		c.PrependReactor("update", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
		if err := touch(t.Context(), c.ApiextensionsV1().CustomResourceDefinitions(), crd); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInstallEndsWhenReplicasStartTogether: another one creates a definition, and changes
// another one, after this one has read them.
func TestInstallEndsWhenReplicasStartTogether(t *testing.T) {
	t.Parallel()
	all, err := Definitions(controllers.PlaneProviders())(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	created, changed := all[0], all[1]
	old := changed.DeepCopy()
	old.Spec.Names.Categories = []string{"old"}
	c, conflicts := fake.NewSimpleClientset(old), 0
	c.PrependReactor("create", "customresourcedefinitions", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return false, nil, c.Tracker().Add(created.DeepCopy())
	})
	c.PrependReactor("update", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
		conflicts++
		return conflicts == 1, nil, apierrors.NewConflict(apiextensionsv1.Resource("customresourcedefinitions"), changed.Name, errors.New("changed"))
	})
	if _, err := installCRDs(t.Context(), c.ApiextensionsV1().CustomResourceDefinitions(), []*apiextensionsv1.CustomResourceDefinition{created.DeepCopy(), changed.DeepCopy()}, convertInProcess); err != nil {
		t.Fatal(err)
	}
	live, err := c.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), changed.Name, metav1.GetOptions{})
	if err != nil || !equality.Semantic.DeepEqual(live.Spec, changed.Spec) {
		t.Errorf("spec %+v, error %v", live.Spec, err)
	}
}

func TestDefinitionsOfANewPlaneNeedNoWrite(t *testing.T) {
	t.Parallel()
	defined, err := Definitions(controllers.PlaneProviders())(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var there []runtime.Object
	for _, crd := range defined {
		there = append(there, crd)
	}
	want, err := ofPlane(controllers.PlaneProviders())
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewSimpleClientset(there...)
	fresh, err := installCRDs(t.Context(), c.ApiextensionsV1().CustomResourceDefinitions(), want, convertInProcess)
	if err != nil || len(fresh) > 0 || len(c.Actions()) != 1 {
		t.Errorf("%d newly established after %v, error %v; want one list", len(fresh), c.Actions(), err)
	}
}

func TestAKindIsAwaitedUntilItsWatchCacheIsFilled(t *testing.T) {
	t.Parallel()
	asked := 0
	filled := func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("resourceVersion") != "0" || q.Get("limit") != "" || q.Get("fieldSelector") == "" {
			t.Errorf("asked for %s, which is answered from etcd while the cache is filled", r.URL)
		}
		status := &metav1.Status{Code: http.StatusOK}
		if asked++; asked < 3 {
			w.Header().Set("Retry-After", "3600")
			status = &apierrors.NewTooManyRequests("storage is (re)initializing", 3600).ErrStatus
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.WriteHeader(int(status.Code))
		if err := json.NewEncoder(w).Encode(status); err != nil {
			t.Error(err)
		}
	}
	cfg := &rest.Config{Host: "http://in-process", Transport: handlertransport.Transport(http.HandlerFunc(filled))}
	c, err := apiextensions.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := awaitCache(t.Context(), c.RESTClient(), "/apis", "x.io", "v1", "hosts"); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v, want three times", asked, err)
	}
}
