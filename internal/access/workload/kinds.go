// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// awaited is how long the definitions of kinds are watched after a call of
// AwaitKinds. A caller that waits longer calls it again.
const awaited = 2 * time.Minute

// kinds watches the definitions of kinds that users add, while a controller waits
// for one. It reports only that a definition was added or changed, and stores none.
type kinds struct {
	lister rest.Interface
	notify func(client.Object)

	mu    sync.Mutex      // guards the fields below
	ctx   context.Context // of the watch; nil before the connection is open, and after
	until time.Time
	runs  bool
}

// AwaitKinds implements Clusters.
func (c *Cache) AwaitKinds(cluster client.ObjectKey) {
	if conn, err := c.connection(cluster); err == nil {
		conn.kinds.await(&conn.viewing)
	}
}

// opened lets the watch run until ctx is done.
func (k *kinds) opened(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx = ctx
}

// closed prevents further watches.
func (k *kinds) closed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx = nil
}

// await watches the definitions for a while, in a goroutine of among.
func (k *kinds) await(among *sync.WaitGroup) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil {
		return
	}
	k.until = time.Now().Add(awaited)
	if !k.runs {
		k.runs = true
		ctx := k.ctx
		among.Go(recovery.Func(ctx, func() { k.run(ctx) }))
	}
}

// continues reports whether a controller still waits. If not, the next call of await
// starts a new watch.
func (k *kinds) continues(ctx context.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs = ctx.Err() == nil && time.Now().Before(k.until)
	return k.runs
}

// run watches as long as a controller waits, or until the server refuses to show
// its definitions: the next call of await tries that again.
func (k *kinds) run(ctx context.Context) {
	for retry := firstRetry; k.continues(ctx); retry = min(2*retry, lastRetry) {
		err := recovery.Call(ctx, func() error { return k.watch(ctx) })
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			k.mu.Lock()
			k.runs = false
			k.mu.Unlock()
			return
		}
		ctrl.LoggerFrom(ctx).V(2).Info("The watch of definitions of kinds ended", "reason", text(err))
		_ = lifecycle.Sleep(ctx, jittered(retry)) // its end ends the loop, too
	}
}

// watch reports each event while a controller waits. It starts with the existing
// definitions, which may have been created before the wait.
func (k *kinds) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var end *time.Timer
	k.mu.Lock() // also of end
	end = time.AfterFunc(awaited, recovery.Func(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if left := time.Until(k.until); left > 0 {
			end.Reset(left)
			return
		}
		cancel()
	}))
	k.mu.Unlock()
	defer end.Stop()
	body, err := k.lister.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").Param("watch", "true").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json").Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	for buffer := make([]byte, 16<<10); ; {
		n, err := body.Read(buffer)
		if n > 0 {
			k.notify(&metav1.PartialObjectMetadata{})
		}
		if err != nil {
			return plain(err)
		}
	}
}

// builtIn maps the kinds that every API server has to their resources, without
// requests. One mapper serves all connections.
var builtIn = sync.OnceValue(func() meta.RESTMapper {
	versions := []schema.GroupVersion{
		{Version: "v1"},
		{Group: "apps", Version: "v1"},
		{Group: "batch", Version: "v1"},
		{Group: "certificates.k8s.io", Version: "v1"},
		{Group: "coordination.k8s.io", Version: "v1"},
		{Group: "networking.k8s.io", Version: "v1"},
		{Group: "policy", Version: "v1"},
		{Group: "rbac.authorization.k8s.io", Version: "v1"},
		{Group: "scheduling.k8s.io", Version: "v1"},
		{Group: "storage.k8s.io", Version: "v1"},
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for _, gv := range versions {
		for kind := range scheme.Scheme.KnownTypes(gv) {
			scope := meta.RESTScopeNamespace
			if clusterScoped[kind] {
				scope = meta.RESTScopeRoot
			}
			mapper.Add(gv.WithKind(kind), scope)
		}
	}
	return mapper
})

// clusterScoped are the kinds of builtIn without a namespace.
var clusterScoped = map[string]bool{
	"CSIDriver":                 true,
	"CSINode":                   true,
	"CertificateSigningRequest": true,
	"ClusterRole":               true,
	"ClusterRoleBinding":        true,
	"ComponentStatus":           true,
	"IPAddress":                 true,
	"IngressClass":              true,
	"Namespace":                 true,
	"Node":                      true,
	"PersistentVolume":          true,
	"PriorityClass":             true,
	"ServiceCIDR":               true,
	"StorageClass":              true,
	"VolumeAttachment":          true,
	"VolumeAttributesClass":     true,
}
