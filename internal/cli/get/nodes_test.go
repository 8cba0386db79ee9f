// SPDX-License-Identifier: Apache-2.0

package get

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestNodesAreListedAsKubectlDoes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	node := func(name string, ready corev1.ConditionStatus, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-90 * time.Second)), Labels: map[string]string{}}}
		for _, l := range labels {
			n.Labels[l] = ""
		}
		n.Status.NodeInfo.KubeletVersion = "v1.36.3"
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return n
	}
	cordoned := node("w2", corev1.ConditionUnknown)
	cordoned.Spec.Unschedulable = true
	hostile := node("w3", corev1.ConditionTrue, "node-role.kubernetes.io/\x1b[31m")
	hostile.Status.NodeInfo.KubeletVersion = "v1\x1b[2J\nw4\tReady"
	var out bytes.Buffer
	env := &command.Env{Out: &out, Now: func() time.Time { return now }}
	err := writeNodes(env, []corev1.Node{
		node("cp", corev1.ConditionTrue, "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/a"),
		node("w1", corev1.ConditionFalse, "kubernetes.io/os"),
		cordoned,
		hostile,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME   STATUS                       ROLES             AGE   VERSION
cp     Ready                        a,control-plane   90s   v1.36.3
w1     NotReady                     <none>            90s   v1.36.3
w2     Unknown,SchedulingDisabled   <none>            90s   v1.36.3
w3     Ready                        \x1b[31m          90s   v1\x1b[2J w4 Ready
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
