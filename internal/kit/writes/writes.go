// SPDX-License-Identifier: Apache-2.0

// Package writes intercepts the writes of a client.
package writes

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// DryRun is the verb of a patch that stores nothing.
const DryRun = "dry-run patch"

// Before calls before ahead of each write of a client; its error prevents
// the write. A creation that stores nothing is none. The verb of a write to a
// subresource has its name, as in "patch status of".
func Before(before func(verb string, obj client.Object) error) interceptor.Funcs {
	then := func(verb string, obj client.Object, write func() error) error {
		if err := before(verb, obj); err != nil {
			return err
		}
		return write()
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
				return c.Create(ctx, obj, opts...)
			}
			return then("create", obj, func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return then("update", obj, func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			verb := "patch"
			if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) > 0 {
				verb = DryRun
			}
			return then(verb, obj, func() error { return c.Patch(ctx, obj, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return then("delete", obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, obj, with client.Object, opts ...client.SubResourceCreateOption) error {
			return then("create "+sub+" of", obj, func() error { return c.SubResource(sub).Create(ctx, obj, with, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return then("patch "+sub+" of", obj, func() error { return c.SubResource(sub).Patch(ctx, obj, p, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return then("update "+sub+" of", obj, func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
	}
}
