// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scene is what the objects of a cluster report of one fault, a line each:
//
//	KIND/NAME: TYPE STATUS REASON MINUTE MESSAGE   a condition; | is a line feed
//	KIND/NAME deleted MINUTE FINALIZERS
//	KIND/NAME warns REASON MINUTE MESSAGE
//	KIND/NAME missing, paused, unset, hook, exhausted, manager, provider, untouched VALUE
type scene struct {
	says    string
	start   string // KIND/NAME; Cluster/demo if empty
	want    string // KIND/NAME and type of the first cause; empty if there is none
	also    string // of the second
	unsure  bool   // no object reports the cause
	command string // part of the remedy
}

// base is a cluster with a control plane Machine, a worker of a MachineDeployment, a
// MachinePool and all that they refer to, of which nothing is wrong.
func base() map[string]*Object {
	const core, infra, boot, plane = "cluster.x-k8s.io", "infrastructure.example.com", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"
	objects := map[string]*Object{}
	add := func(group, kind, name, owner string, refs ...Ref) Key {
		key := Key{group, kind, "fleet", name}
		o := &Object{Key: key, UID: kind + "/" + name, Refs: refs}
		if owner != "" {
			o.Owners = []string{owner}
		}
		objects[o.UID] = o
		return key
	}
	machine := func(name, owner string) {
		add(core, "Machine", name, owner, Ref{fieldInfrastructure, add(infra, "FakeMachine", name, "Machine/"+name)}, Ref{fieldBootstrap, add(boot, "KubeadmConfig", name, "Machine/"+name)})
	}
	template, config := add(infra, "FakeMachineTemplate", "w", ""), add(boot, "KubeadmConfigTemplate", "w", "")
	workers := []Ref{{fieldTemplateInfrastructure, template}, {fieldTemplateBootstrap, config}}
	add(core, "Cluster", "demo", "",
		Ref{fieldInfrastructure, add(infra, "FakeCluster", "demo", "Cluster/demo")},
		Ref{fieldControlPlane, add(plane, "KubeadmControlPlane", "cp", "Cluster/demo", Ref{fieldMachineTemplate, add(infra, "FakeMachineTemplate", "cp", "")})},
		Ref{fieldClass, add(core, "ClusterClass", "class", "", Ref{"spec.infrastructure.templateRef", add(infra, "FakeClusterTemplate", "c", "")})})
	machine("cp-0", "KubeadmControlPlane/cp")
	add(core, "MachineDeployment", "md", "Cluster/demo", workers...)
	add(core, "MachineSet", "ms", "MachineDeployment/md", workers...)
	machine("w-0", "MachineSet/ms")
	add(core, "MachinePool", "mp", "Cluster/demo", Ref{fieldTemplateInfrastructure, add(infra, "FakeMachinePool", "mp", "MachinePool/mp")})
	add(core, "MachineHealthCheck", "check", "Cluster/demo")
	add("runtime.cluster.x-k8s.io", "ExtensionConfig", "ext", "")
	add("runtime.cluster.x-k8s.io", "ExtensionConfig", "demo", "")
	add("", "ResourceQuota", "few", "")
	add("apps", "Deployment", "ctl", "")
	add("", "Pod", "ctl-0", "Deployment/ctl")
	return objects
}

func minute(t testing.TB, text string) metav1.Time {
	t.Helper()
	d, err := time.ParseDuration(text + "m")
	if err != nil {
		t.Fatal(err)
	}
	return metav1.NewTime(noon.Add(d))
}

// objects are those of the base with what the scene reports.
func (s scene) objects(t testing.TB) (all []Object) {
	t.Helper()
	objects := base()
	for line := range strings.Lines(s.says) {
		line = strings.ReplaceAll(strings.TrimSpace(line), "|", "\n")
		if line == "" {
			continue
		}
		words := strings.SplitN(line, " ", 6)
		name, isCondition := strings.CutSuffix(words[0], ":")
		o := objects[name]
		words = append(words, "", "", "", "")
		switch verb := words[1]; {
		case o == nil:
			t.Fatalf("no object %s", name)
		case isCondition:
			o.Conditions = append(o.Conditions, metav1.Condition{
				Type: verb, Status: metav1.ConditionStatus(words[2]), Reason: words[3], LastTransitionTime: minute(t, words[4]), Message: words[5],
			})
		case verb == "deleted":
			o.Deleted, o.Finalizers = new(minute(t, words[2])), strings.Split(words[3], ",")
		case verb == "warns":
			o.Warn(Warning{Reason: words[2], Last: minute(t, words[3]), Message: strings.TrimSpace(words[4] + " " + words[5])})
		case verb == "missing":
			o.Missing, o.UID = true, ""
		case verb == "paused":
			o.Paused = strings.TrimSpace(words[2] + " " + words[3])
		case verb == "unset":
			o.Unset = append(o.Unset, strings.TrimSpace(words[2]+" "+words[3]))
		case verb == "hook":
			o.Hooks = append(o.Hooks, words[2])
		case verb == "exhausted":
			o.Exhausted = append(o.Exhausted, words[2])
		case verb == "manager":
			o.Manager = words[2]
		case verb == "provider":
			o.Provider = words[2]
		case verb == "untouched":
			o.Untouched = true
		default:
			t.Fatalf("line %q", line)
		}
	}
	for _, o := range objects {
		all = append(all, *o)
	}
	return all
}

// run requires the first causes of each scene, for objects in any order, which is
// that of a map, and a remedy that a user can run.
func run(t *testing.T, scenes map[string]scene) {
	t.Helper()
	for name, tc := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := tc.objects(t)
			start := tc.start
			if start == "" {
				start = "Cluster/demo"
			}
			r := Find(objects, at(t, objects, start))
			if got := leaf(r, 0); got != tc.want || len(r.Causes) > 0 && r.Certain == tc.unsure {
				t.Errorf("the first cause is %q, certain %t; want %q\n%+v", got, r.Certain, tc.want, r.Causes)
			}
			if got := leaf(r, 1); tc.also != "" && got != tc.also {
				t.Errorf("the second cause is %q, want %q", got, tc.also)
			}
			for _, c := range r.Causes {
				if c.Remedy == nil || c.Remedy.Command == "" || strings.ContainsAny(c.Remedy.Text+c.Remedy.Command, "{}") {
					t.Errorf("the remedy of %s is %+v", c.Sentence(), c.Remedy)
				}
				if c.Chain[0].Since == nil && c.Chain[len(c.Chain)-1].Since == nil {
					t.Errorf("no link of %s has a time", c.Sentence())
				}
			}
			if len(r.Causes) > 0 && !strings.Contains(r.Causes[0].Remedy.Command, tc.command) {
				t.Errorf("the command is %q, want %q", r.Causes[0].Remedy.Command, tc.command)
			}
		})
	}
}
