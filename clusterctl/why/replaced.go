// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// aboutReplacement are reasons of Events that state why a Machine is deleted or remediated.
var aboutReplacement = []string{"SuccessfulDelete", "MachineMarkedUnhealthy", "Remediated", "RemediationStarted"}

// Replaced explains why a Machine is or was replaced. A deleted Machine is explained by
// the decisions about it that the management cluster has recorded, and by the Events that
// exist of it.
func (c Reader) Replaced(ctx context.Context, key causes.Key) (none causes.Replacement, err error) {
	if key.Kind != "Machine" {
		return none, fmt.Errorf("%s is not a Machine: only Machines are replaced", key)
	}
	obj, err := c.Get(ctx, references.To(key))
	if err != nil {
		return none, err
	}
	exists := obj != nil
	if !exists {
		obj = c.lastRecorded(ctx, key)
	}
	var machine *causes.Object
	var statements []causes.Statement
	if obj != nil {
		machine = new(causes.Read(obj))
		statements = c.decided(ctx, obj)
	}
	events, err := c.replacementEvents(ctx, key)
	if err != nil {
		return none, err
	}
	statements = append(statements, events...)
	slices.SortStableFunc(statements, func(a, b causes.Statement) int { return a.At.Compare(b.At.Time) })
	if machine == nil && len(statements) == 0 {
		return none, fmt.Errorf("%s not found, and no recorded decision and no Event is about it: the API server deletes Events after some time", key)
	}
	return causes.Replaced(machine, key, exists, statements), nil
}

func (c Reader) replacementEvents(ctx context.Context, key causes.Key) (events []causes.Statement, err error) {
	var list corev1.EventList
	if err := c.Mgmt.List(ctx, &list, client.InNamespace(key.Namespace)); err != nil {
		return nil, fmt.Errorf("list Events: %w", err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		about := e.InvolvedObject.Name == key.Name || e.Related != nil && e.Related.Name == key.Name || causes.Names(e.Message, key.Name)
		if about && slices.ContainsFunc(aboutReplacement, func(reason string) bool { return strings.HasPrefix(e.Reason, reason) }) {
			events = append(events, causes.Statement{
				Source: fmt.Sprintf("Event %s of %s %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name), Text: e.Message, At: new(metav1.NewTime(causes.EventTime(e))),
			})
		}
	}
	return events, nil
}

// lastRecorded is a deleted Machine as the last recorded decision about it has it, or nil.
func (c Reader) lastRecorded(ctx context.Context, key causes.Key) *unstructured.Unstructured {
	for _, d := range slices.Backward(c.recorded(ctx, key.Kind, key.Namespace, key.Name)) {
		var facts struct {
			Machine map[string]any `json:"machine"`
		}
		if json.Unmarshal(d.Facts, &facts) == nil && facts.Machine != nil {
			obj := &unstructured.Unstructured{Object: facts.Machine}
			obj.SetGroupVersionKind(clusterv1.GroupVersion().WithKind(key.Kind))
			return obj
		}
	}
	return nil
}

// replacing are the verbs of the actions that end a Machine.
var replacing = []string{"delete", "replace"}

// decided are the recorded decisions to delete a Machine, of its owner and its
// MachineDeployment.
func (c Reader) decided(ctx context.Context, machine *unstructured.Unstructured) (all []causes.Statement) {
	of := map[string]string{"MachineDeployment": machine.GetLabels()[clusterv1.MachineDeploymentNameLabel]}
	for _, owner := range machine.GetOwnerReferences() {
		of[owner.Kind] = owner.Name
	}
	for kind, name := range of {
		for _, d := range c.recorded(ctx, kind, machine.GetNamespace(), name) {
			for _, line := range decisions.Words(d.Plan) {
				if verb, _, _ := strings.Cut(line, " "); causes.Names(line, machine.GetName()) && slices.Contains(replacing, verb) {
					all = append(all, causes.Statement{Source: fmt.Sprintf("Decision of %s %s", kind, name), Text: line, At: new(metav1.NewTime(d.Time))})
				}
			}
		}
	}
	return all
}

// recorded returns the decisions about an object, the oldest first. There are none if the
// management cluster records none, or the user may not read them.
func (c Reader) recorded(ctx context.Context, kind, namespace, name string) []decisions.Decision {
	if c.Raw == nil || name == "" {
		return nil
	}
	text, err := c.Raw.Get().AbsPath(decisions.Path, strings.ToLower(kind), namespace, name).DoRaw(ctx)
	var found decisions.List
	if err != nil || json.Unmarshal(text, &found) != nil {
		return nil
	}
	return found.Decisions
}
