// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
)

// Conversion converts requests from one version of a hook to the next older one, and
// responses back. Create it with Convert.
type Conversion struct {
	newer, older any // functions that represent hooks
	down, up     func(from, to any) error
}

// Convert connects a version of a hook with the next older one. down fills an older
// request from a newer one; content without a field in the older version is lost. up
// fills a newer response from an older one and sets the defaults of its new fields.
//
// The common fields of all messages are set before down and up are called: settings of a
// request; status, message and retryAfterSeconds of a response; kind and version of both.
// The functions may retain and change their arguments.
func Convert[NewReq, NewResp, OldReq, OldResp any](
	newer func(*NewReq, *NewResp), older func(*OldReq, *OldResp),
	down func(*NewReq, *OldReq) error, up func(*OldResp, *NewResp) error,
) Conversion {
	c := Conversion{newer: newer, older: older}
	if down != nil {
		c.down = func(from, to any) error { return down(from.(*NewReq), to.(*OldReq)) }
	}
	if up != nil {
		c.up = func(from, to any) error { return up(from.(*OldResp), to.(*NewResp)) }
	}
	return c
}

// ConvertRequest returns the request of an older version for a newer one. A request of
// that very version is returned unchanged; otherwise the result shares nothing with it.
func (c *Catalog) ConvertRequest(from runtime.Object, to GroupVersionHook) (runtime.Object, error) {
	have, err := c.of(from, func(d *Descriptor) reflect.Type { return d.RequestType })
	if err != nil {
		return nil, fmt.Errorf("convert a request to %s: %w", to, err)
	}
	if have.GroupVersionHook == to {
		return from, nil
	}
	path, err := c.path(have.GroupVersionHook, to)
	if err != nil {
		return nil, fmt.Errorf("convert a request: %w", err)
	}
	msg := from.DeepCopyObject()
	for i, older := range path[1:] {
		next := older.newRequest()
		carrySettings(msg, next)
		if err := guarded(c.steps[path[i].GroupVersionHook].down, msg, next); err != nil {
			return nil, fmt.Errorf("convert a request of %s from %s to %s: %w", to.Hook, path[i].Version, older.Version, err)
		}
		next.GetObjectKind().SetGroupVersionKind(older.Request)
		msg = next
	}
	return msg, nil
}

// ConvertResponse fills into, a response of a newer version, from an older one. Between
// two responses of one version it copies. They share nothing afterwards. into is
// unchanged if it returns an error.
func (c *Catalog) ConvertResponse(from, into hooksv1.ResponseObject) error {
	responses := func(d *Descriptor) reflect.Type { return d.ResponseType }
	have, err := c.of(from, responses)
	if err != nil {
		return fmt.Errorf("convert a response: %w", err)
	}
	want, err := c.of(into, responses)
	if err != nil {
		return fmt.Errorf("convert a response of %s: %w", have, err)
	}
	path, err := c.path(want.GroupVersionHook, have.GroupVersionHook)
	if err != nil {
		return fmt.Errorf("convert a response: %w", err)
	}
	msg := from.DeepCopyObject().(hooksv1.ResponseObject)
	for i := len(path) - 2; i >= 0; i-- {
		next := path[i].newResponse()
		carryOutcome(msg, next)
		if err := guarded(c.steps[path[i].GroupVersionHook].up, msg, next); err != nil {
			return fmt.Errorf("convert a response of %s from %s to %s: %w", have.Hook, path[i+1].Version, path[i].Version, err)
		}
		msg = next
	}
	msg.GetObjectKind().SetGroupVersionKind(want.Response)
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(msg).Elem())
	return nil
}

// of returns the hook that a message belongs to.
func (c *Catalog) of(msg runtime.Object, side func(*Descriptor) reflect.Type) (*Descriptor, error) {
	v := reflect.ValueOf(msg)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, fmt.Errorf("%T holds no message", msg)
	}
	d := c.byType[v.Type().Elem()]
	if d == nil || side(d) != v.Type().Elem() {
		return nil, fmt.Errorf("%T is not in this catalog, or not on this side of a call", msg)
	}
	return d, nil
}

// path lists the versions of a hook from the newer one, which the catalog has, to the
// older one, both included.
func (c *Catalog) path(newer, older GroupVersionHook) ([]*Descriptor, error) {
	if newer.GroupHook() != older.GroupHook() {
		return nil, fmt.Errorf("%s is another hook than %s", newer, older)
	}
	all := c.versions[newer.GroupHook()]
	at := func(h GroupVersionHook) int {
		return slices.IndexFunc(all, func(d *Descriptor) bool { return d.GroupVersionHook == h })
	}
	i, j := at(newer), at(older)
	if j < 0 {
		_, err := c.Find(older)
		return nil, err
	}
	if i > j {
		return nil, fmt.Errorf("%s is older than %s: requests go down, responses up", newer, older.Version)
	}
	return all[i : j+1], nil
}

func carrySettings(from, to runtime.Object) {
	f, ok := from.(hooksv1.RequestObject)
	t, also := to.(hooksv1.RequestObject)
	if ok && also {
		t.SetSettings(maps.Clone(f.GetSettings()))
	}
}

func carryOutcome(from, to hooksv1.ResponseObject) {
	to.SetStatus(from.GetStatus())
	to.SetMessage(from.GetMessage())
	f, ok := from.(hooksv1.RetryResponseObject)
	t, also := to.(hooksv1.RetryResponseObject)
	if ok && also {
		t.SetRetryAfterSeconds(f.GetRetryAfterSeconds())
	}
}

// guarded calls a conversion and turns a panic into an error: conversions may be
// third-party code, and a faulty one must not end the process.
func guarded(convert func(from, to any) error, from, to any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the conversion panicked: %v", r)
		}
	}()
	return convert(from, to)
}
