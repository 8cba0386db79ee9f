// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// running is a Deployment of a provider with its Pods, in a namespace of its name.
func running(provider string, pods ...string) (all []runtime.Object) {
	app := map[string]string{"app": provider}
	all = append(all, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: provider, Name: "manager", Labels: map[string]string{"cluster.x-k8s.io/provider": provider}},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: app}},
	})
	for _, name := range pods {
		all = append(all, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: provider, Name: name, Labels: app},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager"}}},
		})
	}
	return all
}

func TestAProviderIsFoundByItsNameOrTheEndOfIt(t *testing.T) {
	t.Parallel()
	all := slices.Concat(running("infrastructure-aws", "a-1", "a-2"), running("infrastructure-yard", "y-1"), running("bootstrap-yard", "b-1"), running("infrastructure-idle"))
	for name, tc := range map[string]struct {
		objects []runtime.Object
		name    string
		want    []source
		wantErr string
	}{
		"the whole name":       {all, "infrastructure-aws", []source{{"infrastructure-aws", "a-1", "manager"}, {"infrastructure-aws", "a-2", "manager"}}, ""},
		"the end of it":        {all, "aws", []source{{"infrastructure-aws", "a-1", "manager"}, {"infrastructure-aws", "a-2", "manager"}}, ""},
		"the end of two":       {all, "yard", nil, "yard may be bootstrap-yard or infrastructure-yard: name one of them"},
		"the whole of one":     {all, "bootstrap-yard", []source{{"bootstrap-yard", "b-1", "manager"}}, ""},
		"one that is mistyped": {all, "infrastructure-awz", nil, "there is no provider infrastructure-awz with a Deployment"},
		"one without Pods":     {all, "idle", nil, "provider infrastructure-idle has no Pod"},
		"no provider":          {nil, "aws", nil, "no provider has a Deployment here: \"capstan init\" installs providers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := containersOf(t.Context(), fake.NewClientset(tc.objects...), tc.name)
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want one with %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(source{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLinesOfSeveralContainersSayWhose(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	for name, tc := range map[string]struct {
		prefixed bool
		want     string
	}{
		"of one":     {false, "fake logs\n"},
		"of several": {true, "a-1/manager: fake logs\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			s := &sharedOutput{env: &command.Env{Out: &out, Err: &out}, prefixed: tc.prefixed}
			if err := s.copy(t.Context(), c, providerOptions{tail: -1}, source{"infrastructure-aws", "a-1", "manager"}); err != nil || out.String() != tc.want {
				t.Errorf("printed %q, %v, want %q", out.String(), err, tc.want)
			}
		})
	}
}
