// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
)

// ask sends a change to the endpoint of plans as a user.
func (f fleet) ask(change, user string) (*planv1.Plan, error) {
	cfg := rest.CopyConfig(f.Config)
	if user != "" {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	set, err := kubernetes.NewForConfig(cfg)
	f.must(err)
	answer := set.RESTClient().Post().AbsPath(changeplan.EndpointPath).Param("namespace", f.Namespace).Body([]byte(change)).Do(f.Context())
	if err := answer.Error(); err != nil {
		return nil, err
	}
	text, err := answer.Raw()
	f.must(err)
	p := &planv1.Plan{}
	return p, json.Unmarshal(text, p)
}

func TestPlaneMakesPlansForItsClients(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{controlPlane: 1, workers: 2})
	f.becomes("c")
	change := `{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: c-workers}, spec: {replicas: 3}}`
	user := "planner-of-" + f.Namespace
	if _, err := f.ask(change, user); !apierrors.IsForbidden(err) {
		t.Errorf("a user without the right to plan: %v", err)
	}
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"post"}, NonResourceURLs: []string{changeplan.EndpointPath}},
		{Verbs: []string{"list"}, APIGroups: []string{"runtime.cluster.x-k8s.io"}, Resources: []string{"extensionconfigs"}},
	}}
	f.make(role, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}, Subjects: subjects})
	f.eventually(func() error {
		if _, err := f.ask(change, user); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "cannot") {
			return fmt.Errorf("a user without rights in the namespace: %w", err)
		}
		return nil
	})
	f.make(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: subjects})
	f.eventually(func() error {
		p, err := f.ask(change, user)
		if err != nil || p.Summary.Kept != 3 || p.Summary.Created != 1 {
			return fmt.Errorf("a user with rights in the namespace: %+v, %w", p, err)
		}
		return nil
	})
}
