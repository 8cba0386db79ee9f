// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// handle runs f, which handles one object. After a panic the object is reported in an
// Event and left out until it changes: other objects do not wait for it.
func (c *Controllers) handle(key store.Key, f func() error) error {
	if c.leavesOut(key) {
		return nil
	}
	ctx := logr.NewContext(c.ctx, c.log.WithValues("resource", key.Resource.String(), "namespace", key.Namespace, "name", key.Name))
	err := recovery.Call(ctx, f)
	crash, ok := errors.AsType[*recovery.Error](err)
	if !ok {
		return err
	}
	e := c.store.Entries().Get(key)
	if e == nil {
		return nil // it is deleted, and the panic is in the log
	}
	c.leftOut[key] = e.Version
	return recovery.Call(ctx, func() error {
		return c.warn(e, "ControllerPanicked", fmt.Sprintf("The controllers of the simulated cluster leave out the object until it changes: %.512s", crash))
	})
}

// leavesOut reports whether the latest version of an object caused a panic.
func (c *Controllers) leavesOut(key store.Key) bool {
	version, crashed := c.leftOut[key]
	if !crashed {
		return false
	}
	if e := c.store.Entries().Get(key); e != nil && e.Version == version {
		return true
	}
	delete(c.leftOut, key)
	return false
}

// maxNamed is how much of the name of an object is in that of its Event, which ends with
// a UID: a name has at most 253 characters.
const maxNamed = 200

// warn creates the Event of an object that the controllers cannot handle. There is one per
// object.
func (c *Controllers) warn(e *store.Entry, reason, message string) error {
	var kind metav1.TypeMeta
	if err := json.Unmarshal(e.Raw, &kind); err != nil {
		return err
	}
	now := metav1.NewTime(c.clock.Now())
	event := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{
			APIVersion: kind.APIVersion, Kind: kind.Kind, Namespace: e.Key.Namespace, Name: e.Key.Name, UID: e.UID, ResourceVersion: fmt.Sprint(e.Version),
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "simulated-controllers"},
	}
	event.Namespace = cmp.Or(e.Key.Namespace, metav1.NamespaceDefault)
	event.Name = fmt.Sprintf("%.*s.%s", maxNamed, e.Key.Name, e.UID)
	return c.store.Ensure(event)
}
