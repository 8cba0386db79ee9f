// SPDX-License-Identifier: Apache-2.0

package machinedeletion

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
)

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

// since is in the message of a step that starts now.
const since = "(since 2026-03-02T08:00:00Z)"

// facts are those of a Machine with all objects and no hooks, whose Node must be
// drained.
func facts(change ...func(*Facts)) Facts {
	f := Facts{
		Machine: &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m0", DeletionTimestamp: &metav1.Time{Time: now.Add(-30 * time.Second)}, Annotations: map[string]string{}},
			Status:     clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: "n0"}},
		},
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}},
		Now:     now, Connected: true,
		Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Spec: corev1.NodeSpec{Unschedulable: true},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		},
		Infrastructure: Object{Name: "Host m0", Exists: true}, Bootstrap: Object{Name: "Config m0", Exists: true},
	}
	f.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "plane.io", Kind: "Plane", Name: "demo"}
	for _, c := range change {
		c(&f)
	}
	return f
}

func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: name, UID: "u"}}
	for _, c := range change {
		c(&p)
	}
	return p
}

// world answers questions: from its fields, else with success.
type world struct {
	answers map[Kind]Answer
	fails   Kind // this question cannot be answered
	asked   []string
}

func (w *world) answer(q Question) (Answer, error) {
	w.asked = append(w.asked, strings.TrimSpace(fmt.Sprintf("%s %s", q.Kind, q.Name)))
	if q.Kind == w.fails {
		return Answer{}, errors.New("boom")
	}
	if a, ok := w.answers[q.Kind]; ok {
		return a, nil
	}
	return map[Kind]Answer{ControlPlane: {Exists: true}, ControlPlaneMachines: {Number: 1}, DaemonSet: {Exists: true}}[q.Kind], nil
}

// Changes of facts.
func noHost(f *Facts)      { f.Infrastructure.Exists = false }
func noBootstrap(f *Facts) { f.Bootstrap.Exists = false }
func noNode(f *Facts)      { f.Node = nil }
func lost(f *Facts)        { f.Node, f.Connected = nil, false }
func ambiguous(f *Facts) {
	f.Node, f.Connected, f.NodeFailure = nil, false, questions.Failed(errors.New("two Nodes have it"))
}
func silent(f *Facts)     { f.Node.Status.Conditions[0].Status = corev1.ConditionUnknown }
func uncordoned(f *Facts) { f.Node.Spec.Unschedulable = false }
func annotated(key string) func(*Facts) {
	return func(f *Facts) { f.Machine.Annotations[key] = "" }
}
func limits(drain, volumes, node int32) func(*Facts) {
	return func(f *Facts) {
		f.Machine.Spec.Deletion = clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: &drain, NodeVolumeDetachTimeoutSeconds: &volumes, NodeDeletionTimeoutSeconds: &node}
	}
}
func began(s clusterv1.MachineDeletionStatus) func(*Facts) {
	return func(f *Facts) { f.Machine.Status.Deletion = &s }
}
func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

const (
	plane      = "ControlPlane, ControlPlaneMachines"
	drained    = plane + ", DrainRules, Pods n0"
	hostGoes   = "WaitingForInfrastructureDeletion: Waiting for Host m0 to be deleted"
	configGoes = "WaitingForBootstrapDeletion: Waiting for Config m0 to be deleted"
	done       = "DeletionCompleted: Deletion completed, done"
	preDrain   = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/a"
	preTerm    = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/a"
)

// check makes a plan and compares it, as text, and its questions.
func check(t *testing.T, f Facts, w *world, want, wantAsked string) {
	t.Helper()
	made, err := Planner.Make(f, w.answer)
	p := made.Plan
	got := p.Reason
	if p.Message != "" {
		got += ": " + p.Message
	}
	for _, e := range p.Events {
		got += fmt.Sprintf(", %s %s", e.Type, e.Note)
	}
	if p.After > 0 {
		got += ", again after " + p.After.String()
	}
	if p.Done {
		got += ", done"
	}
	if err != nil {
		got += ", error " + err.Error()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantAsked, strings.Join(w.asked, ", ")); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestTheOrder(t *testing.T) {
	t.Parallel()
	const volumesGone = ", VolumeAttachments"
	drainedNode := ", Normal drained Node n0"
	for name, tc := range map[string]struct {
		facts           Facts
		answers         map[Kind]Answer
		want, wantAsked string
	}{
		"pre-drain hooks hold": {
			facts:     facts(annotated(preDrain), annotated(preTerm)),
			want:      "WaitingForPreDrainHook: Waiting for pre-drain hooks to complete " + since + ", that is for the removal of the annotations: " + preDrain,
			wantAsked: plane,
		},
		"but not for a Node that is spared": {
			facts: facts(annotated(preDrain), func(f *Facts) { f.Cluster = nil }), want: hostGoes, wantAsked: "DoDeleteInfrastructure",
		},
		"then the Node is drained": {
			facts: facts(annotated(preTerm), uncordoned), answers: map[Kind]Answer{Pods: {Pods: []corev1.Pod{pod("p0")}}},
			want:      "DrainingNode: Drain not completed yet (started at 2026-03-02T08:00:00Z):\n* Pod app/p0: eviction accepted, waiting for it to be removed from the Node, again after 1s",
			wantAsked: plane + ", DoCordon, DrainRules, Pods n0, DoEvict p0",
		},
		"then pre-terminate hooks hold": {
			facts:     facts(annotated(preTerm)),
			want:      "WaitingForPreTerminateHook: Waiting for pre-terminate hooks to complete " + since + ", that is for the removal of the annotations: " + preTerm + drainedNode,
			wantAsked: drained + volumesGone,
		},
		"then the host goes":                                  {facts: facts(), want: hostGoes + drainedNode, wantAsked: drained + volumesGone + ", DoDeleteInfrastructure"},
		"nothing else is asked while it goes":                 {facts: facts(func(f *Facts) { f.Infrastructure.Going = true }), want: hostGoes, wantAsked: plane + ", DoDeleteInfrastructure"},
		"a host of another Machine stays":                     {facts: facts(), answers: map[Kind]Answer{DoDeleteInfrastructure: {Held: true}}, want: configGoes + drainedNode, wantAsked: drained + volumesGone + ", DoDeleteInfrastructure, DoDeleteBootstrap"},
		"then the bootstrap config":                           {facts: facts(noHost), want: configGoes, wantAsked: plane + ", DoDeleteBootstrap"},
		"then the Node, and the Machine":                      {facts: facts(noHost, noBootstrap), want: done, wantAsked: plane + ", DoDeleteNode n0"},
		"a Machine that never had a Node asks for none":       {facts: facts(noNode, noHost, noBootstrap, func(f *Facts) { f.Machine.Status.NodeRef.Name = "" }), want: done},
		"the Node is known by its name once its host is gone": {facts: facts(noNode, noHost, noBootstrap), want: done, wantAsked: plane + ", DoDeleteNode n0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.facts, &world{answers: tc.answers}, tc.want, tc.wantAsked)
		})
	}
}

func TestANodeThatNoControlPlaneOutlivesIsSpared(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change    func(*Facts)
		answers   map[Kind]Answer
		wantAsked string
	}{
		"the Cluster is gone":                {change: func(f *Facts) { f.Cluster = nil }},
		"the Cluster is being deleted":       {change: func(f *Facts) { f.Cluster.DeletionTimestamp = &metav1.Time{Time: now} }},
		"the control plane is being deleted": {answers: map[Kind]Answer{ControlPlane: {Exists: true, Going: true}}, wantAsked: "ControlPlane"},
		"no control plane Machine is left":   {answers: map[Kind]Answer{ControlPlaneMachines: {}}, wantAsked: plane},
		"not when the control plane runs outside": {
			answers: map[Kind]Answer{ControlPlane: {Exists: true, External: true}, ControlPlaneMachines: {}}, wantAsked: "ControlPlane, DoDeleteNode n0",
		},
		"not without a reference to a control plane": {
			change: func(f *Facts) { f.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} }, wantAsked: "ControlPlaneMachines, DoDeleteNode n0",
		},
		"not when only its object is gone": {answers: map[Kind]Answer{ControlPlane: {}}, wantAsked: plane + ", DoDeleteNode n0"},
		"not with one that stays":          {wantAsked: plane + ", DoDeleteNode n0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(noHost, noBootstrap)
			if tc.change != nil {
				tc.change(&f)
			}
			check(t, f, &world{answers: tc.answers}, done, tc.wantAsked)
		})
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	const started = "DrainingNode: Drain not completed yet (started at 2026-03-02T08:00:00Z)"
	onePod := map[Kind]Answer{Pods: {Pods: []corev1.Pod{pod("p0")}}}
	evicting := "\n* Pod app/p0: eviction accepted, waiting for it to be removed from the Node"
	daemon := pod("d0", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ds", Controller: new(true)}}
	})
	rule := clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
	rule.Spec.Drain.Behavior = clusterv1.MachineDrainRuleDrainBehaviorSkip
	rule.Spec.Pods = []clusterv1.MachineDrainRulePodSelector{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}}}
	broken := *rule.DeepCopy()
	broken.Spec.Pods[0].NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
	for name, tc := range map[string]struct {
		facts           Facts
		answers         map[Kind]Answer
		fails           Kind
		want, wantAsked string
	}{
		"is skipped when it is excluded":                        {facts: facts(annotated(clusterv1.ExcludeNodeDrainingAnnotation), silent), want: hostGoes, wantAsked: "DoDeleteInfrastructure"},
		"is skipped when its time is over":                      {facts: facts(silent, limits(60, 0, 0), began(clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(time.Minute)})), want: hostGoes, wantAsked: plane + ", DoDeleteInfrastructure"},
		"is skipped when the pre-terminate hooks are under way": {facts: facts(silent, began(clusterv1.MachineDeletionStatus{WaitForPreTerminateHookStartTime: ago(0)})), want: hostGoes, wantAsked: plane + ", DoDeleteInfrastructure"},
		"waits for a connection":                                {facts: facts(lost), want: started + ": waiting for a connection to the workload cluster", wantAsked: plane},
		"waits for it no longer than it may take":               {facts: facts(lost, limits(60, 0, 0)), want: started + ": waiting for a connection to the workload cluster, again after 1m0s", wantAsked: plane},
		"fails with what hides the Node":                        {facts: facts(ambiguous), want: started + ": two Nodes have it, error two Nodes have it", wantAsked: plane},
		"is over without a Node":                                {facts: facts(noNode), want: hostGoes, wantAsked: plane + ", DoDeleteInfrastructure"},
		"stops where an answer fails":                           {facts: facts(uncordoned), fails: DoCordon, want: started + ", error boom", wantAsked: plane + ", DoCordon"},
		"requeues later and later": {
			facts: facts(began(clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(7 * time.Second)})), answers: onePod,
			want: strings.Replace(started, "08:00:00", "07:59:53", 1) + ":" + evicting + ", again after 7s", wantAsked: drained + ", DoEvict p0",
		},
		"requeues at least every 20 seconds": {
			facts: facts(began(clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(time.Hour)})), answers: onePod,
			want: strings.Replace(started, "08:00:00", "07:00:00", 1) + ":" + evicting + ", again after 20s", wantAsked: drained + ", DoEvict p0",
		},
		"requeues when its time is over": {
			facts: facts(limits(10, 0, 0), began(clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(8 * time.Second)})), answers: onePod,
			want: strings.Replace(started, "08:00:00", "07:59:52", 1) + ":" + evicting + ", again after 2s", wantAsked: drained + ", DoEvict p0",
		},
		"reports refused evictions, and drops deleted Pods": {
			facts: facts(), answers: map[Kind]Answer{Pods: onePod[Pods], DoEvict: {Refused: "no budget"}},
			want: started + ":\n* Pod app/p0: no budget, again after 1s", wantAsked: drained + ", DoEvict p0",
		},
		"is done when the Pods went by themselves": {
			facts: facts(), answers: map[Kind]Answer{Pods: onePod[Pods], DoEvict: {Gone: true}},
			want: hostGoes + ", Normal drained Node n0", wantAsked: drained + ", DoEvict p0, VolumeAttachments, DoDeleteInfrastructure",
		},
		"leaves the Pods of DaemonSets, and asks for each set once": {
			facts: facts(silent), answers: map[Kind]Answer{Pods: {Pods: []corev1.Pod{daemon, daemon}}},
			want: hostGoes + ", Normal drained Node n0", wantAsked: drained + ", DaemonSet ds, DoDeleteInfrastructure",
		},
		"asks for the labels of namespaces if a rule does": {
			facts: facts(silent), answers: map[Kind]Answer{Pods: onePod[Pods], DrainRules: {Rules: []clusterv1.MachineDrainRule{rule}}, NamespaceLabels: {Labels: map[string]map[string]string{"app": {"team": "red"}}}},
			want: hostGoes + ", Normal drained Node n0", wantAsked: drained + ", NamespaceLabels, DoDeleteInfrastructure",
		},
		"names the rule that is broken": {
			facts: facts(), answers: map[Kind]Answer{Pods: onePod[Pods], DrainRules: {Rules: []clusterv1.MachineDrainRule{broken}}},
			want: started + `, error drain Node n0: MachineDrainRule ns/r: spec.pods: "Near" is not a valid label selector operator`, wantAsked: drained + ", NamespaceLabels",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.facts, &world{answers: tc.answers, fails: tc.fails}, tc.want, tc.wantAsked)
		})
	}
}

func TestAnUnreachableKubeletGetsNoGrace(t *testing.T) {
	t.Parallel()
	for want, change := range map[int64]func(*Facts){0: func(*Facts) {}, 1: silent} {
		made, err := Planner.Make(facts(change), (&world{answers: map[Kind]Answer{Pods: {Pods: []corev1.Pod{pod("p0")}}}}).answer)
		if q := made.Answers[len(made.Answers)-1].Question; err != nil || q != (Question{Kind: DoEvict, Namespace: "app", Name: "p0", UID: "u", Grace: want}) {
			t.Errorf("last question %+v, error %v, want an eviction with a grace of %d", q, err, want)
		}
	}
}

func TestVolumesAreWaitedFor(t *testing.T) {
	t.Parallel()
	attachment := storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	attachment.Spec.NodeName, attachment.Spec.Source.PersistentVolumeName = "n0", new("pv0")
	volume := corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv0"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "app", Name: "data"}
	unseen := "WaitingForVolumeDetach: Waiting for Node volumes to be detached (started at 2026-03-02T08:00:00Z): "
	waits := strings.TrimSpace(unseen) + "\n* PersistentVolumeClaim app/data"
	undrained := annotated(clusterv1.ExcludeNodeDrainingAnnotation)
	for name, tc := range map[string]struct {
		facts           Facts
		want, wantAsked string
	}{
		"after the drain, which knows the Pods": {facts(), waits + ", Normal drained Node n0, again after 1s", drained + ", VolumeAttachments, PersistentVolumes"},
		"without a drain":                       {facts(undrained), waits + ", again after 1s", plane + ", VolumeAttachments, PersistentVolumes, DrainRules, Pods n0"},
		"unless that is excluded":               {facts(undrained, annotated(clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation)), hostGoes, "DoDeleteInfrastructure"},
		"unless the Node is unreachable":        {facts(undrained, silent), hostGoes, "DoDeleteInfrastructure"},
		"unless the host is going":              {facts(undrained, func(f *Facts) { f.Infrastructure.Going = true }), hostGoes, plane + ", DoDeleteInfrastructure"},
		"for a connection, without a drain":     {facts(undrained, lost), unseen + "waiting for a connection to the workload cluster", plane},
		"for a connection, after the time of the drain": {
			facts(lost, limits(60, 90, 0), began(clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(time.Minute)})),
			unseen + "waiting for a connection to the workload cluster, again after 1m30s", plane,
		},
		"for the Node, if that cannot be read": {facts(undrained, ambiguous), unseen + "two Nodes have it, error two Nodes have it", plane},
		"unless there is no Node":              {facts(undrained, noNode), hostGoes, "DoDeleteInfrastructure"},
		"unless its time is over": {
			facts(undrained, limits(0, 5, 0), began(clusterv1.MachineDeletionStatus{WaitForNodeVolumeDetachStartTime: ago(5 * time.Second)})), hostGoes, plane + ", DoDeleteInfrastructure",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, tc.facts, &world{answers: map[Kind]Answer{
				VolumeAttachments: {Attachments: []storagev1.VolumeAttachment{attachment}}, PersistentVolumes: {Volumes: []corev1.PersistentVolume{volume}},
			}}, tc.want, tc.wantAsked)
		})
	}
}

func TestDeletingTheNode(t *testing.T) {
	t.Parallel()
	const asked = plane + ", DoDeleteNode n0"
	boom := map[Kind]Answer{DoDeleteNode: {NodeNotGone: questions.Failed(errors.New("boom"))}}
	for name, tc := range map[string]struct {
		change, connection func(*Facts)
		answers            map[Kind]Answer
		want, wantAsked    string
	}{
		"a failure is tried again":              {limits(0, 0, 60), noNode, boom, "DeletingNode: Deleting Node n0: boom, Warning delete Node n0: boom, error delete Node n0: boom", asked},
		"a failure is given up when time is up": {limits(0, 0, 10), noNode, boom, "DeletionCompleted: Deletion completed, Warning delete Node n0: boom, done", asked},
		"zero means for ever":                   {limits(0, 0, 0), noNode, boom, "DeletingNode: Deleting Node n0: boom, Warning delete Node n0: boom, error delete Node n0: boom", asked},
		"what hides the Node is a failure":      {limits(0, 0, 60), ambiguous, nil, "DeletingNode: Deleting Node n0: two Nodes have it, Warning delete Node n0: two Nodes have it, error delete Node n0: two Nodes have it", plane},
		"a lost connection is waited for":       {limits(0, 0, 60), lost, nil, "DeletingNode: Waiting for a connection to the workload cluster, to delete Node n0, again after 30s", plane},
		"a lost connection is given up too": {
			limits(0, 0, 10), lost, nil, "DeletionCompleted: Deletion completed, Warning Node n0 is left behind: its workload cluster is not connected, done", plane,
		},
		"not before this process has tried": {
			limits(0, 0, 10), func(f *Facts) { lost(f); f.Untried = 9 * time.Second }, nil,
			"DeletingNode: Waiting for a connection to the workload cluster, to delete Node n0, again after 9s", plane,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, facts(noHost, noBootstrap, tc.change, tc.connection), &world{answers: tc.answers}, tc.want, tc.wantAsked)
		})
	}
}
