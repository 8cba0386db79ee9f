// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// Record records again what manager has set on obj where managedFields have lost
// it, so that it can still be removed when it is no longer desired: the currently
// desired keys count as those that were set. It reads the other entries from the
// server behind live, since a cache does not keep all. Where nothing is lost, it
// does nothing; obj is not changed, and one that is older than the server's waits
// for the next reconcile.
func Record(ctx context.Context, c client.Client, live client.Reader, obj client.Object, manager string, want metadata.Want) error {
	if !metadata.Lost(obj, manager) || !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	what := fmt.Sprintf("rewrite managedFields of %s %s", gvk.Kind, client.ObjectKeyFromObject(obj))
	now := obj.DeepCopyObject().(client.Object)
	if err := live.Get(ctx, client.ObjectKeyFromObject(obj), now); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if now.GetUID() != obj.GetUID() || now.GetResourceVersion() != obj.GetResourceVersion() || !metadata.Lost(now, manager) {
		return nil
	}
	entries, err := metadata.Recorded(now, manager, gvk.GroupVersion().String(), want)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": now.GetResourceVersion(), "managedFields": entries}})
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, now, client.RawPatch(types.MergePatchType, body), client.FieldOwner(manager)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
