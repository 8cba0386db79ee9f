// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
)

// aboutReplacement are reasons of Events that state why a Machine is deleted or remediated.
var aboutReplacement = []string{"SuccessfulDelete", "MachineMarkedUnhealthy", "Remediated", "RemediationStarted"}

// WhyReplaced explains why a Machine is or was replaced. A deleted Machine is explained by
// the Events that exist of it.
func (c *Client) WhyReplaced(ctx context.Context, key causes.Key) (none causes.Replacement, err error) {
	if key.Kind != "Machine" {
		return none, fmt.Errorf("%s is not a Machine: only Machines are replaced", key)
	}
	at := reference{key.Namespace, clusterv1.ContractVersionedObjectReference{APIGroup: key.Group, Kind: key.Kind, Name: key.Name}}
	obj, err := c.get(ctx, at)
	if err != nil {
		return none, err
	}
	var machine *causes.Object
	if obj != nil {
		o, _ := (&evidence{Client: c, start: obj}).reduced(obj)
		machine = &o
	}
	var list corev1.EventList
	if err := c.mgmt.List(ctx, &list, client.InNamespace(key.Namespace)); err != nil {
		return none, fmt.Errorf("list Events: %w", err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return EventTime(&a).Compare(EventTime(&b)) })
	var events []causes.Statement
	for i := range list.Items {
		e := &list.Items[i]
		about := e.InvolvedObject.Name == key.Name || e.Related != nil && e.Related.Name == key.Name || causes.Names(e.Message, key.Name)
		if about && slices.ContainsFunc(aboutReplacement, func(reason string) bool { return strings.HasPrefix(e.Reason, reason) }) {
			events = append(events, causes.Statement{
				Source: fmt.Sprintf("Event %s of %s %s", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name), Text: e.Message, At: new(metav1.NewTime(EventTime(e))),
			})
		}
	}
	if machine == nil && len(events) == 0 {
		return none, fmt.Errorf("%s not found, and no Event is about it: the API server deletes Events after some time", key)
	}
	return causes.Replaced(machine, key, events), nil
}
