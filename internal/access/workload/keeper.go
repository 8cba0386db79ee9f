// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// A new cluster answers within seconds of its kubeconfig, and its control plane
	// waits for that: the first attempts follow each other quickly. An unreachable
	// cluster is tried often enough that its return is noticed soon.
	firstRetry  = 200 * time.Millisecond
	lastRetry   = 10 * time.Second
	retryFactor = 1.5             // gaps are a third of the time waited so far
	excessRetry = 5 * time.Minute // after a response that exceeds the size limit

	// Upstream's values: a connection is closed after about a minute without an
	// answer, so that a restart of an API server does not end it.
	probeInterval = 10 * time.Second
	// Probes that are due within this time are sent together: the process becomes
	// runnable once for them, whereas separate probes cost as much CPU time for that
	// as for the probe itself.
	probeTogether = 500 * time.Millisecond
	probeTimeout  = 5 * time.Second
	maxFailures   = 5 // consecutive probes
)

// Reasons to wait that are not failures.
var (
	errGone         = errors.New("the Cluster is gone")
	errNoKubeconfig = errors.New("the kubeconfig Secret does not exist yet")
)

// keeper maintains the connection of one cluster. Only its run changes it.
type keeper struct {
	cache *Cache
	key   client.ObjectKey
	woken chan struct{} // of size one: something may have changed
	read  parsed        // what the next attempt need not read again; only for run

	mu     sync.Mutex // guards the fields below; never held during I/O
	conn   *connection
	health Health
}

// parsed is a kubeconfig with its configuration. Parsing costs as much as the rest
// of an unsuccessful attempt, and attempts on a starting cluster are frequent.
type parsed struct {
	kubeconfig []byte
	config     *rest.Config
}

// configFrom returns the configuration in a Secret.
func (p *parsed) configFrom(secret *corev1.Secret) (*rest.Config, error) {
	if data := secret.Data[kubeconfig.DataKey]; p.config == nil || !bytes.Equal(p.kubeconfig, data) {
		config, err := kubeconfig.FromSecret(secret)
		if err != nil {
			return nil, err
		}
		*p = parsed{data, config}
	}
	return rest.CopyConfig(p.config), nil
}

func newKeeper(c *Cache, key client.ObjectKey) *keeper {
	return &keeper{cache: c, key: key, woken: make(chan struct{}, 1), health: Health{Since: c.Clock.Now()}}
}

// retryNow signals that an attempt is useful, or that the Secret may have changed.
func (k *keeper) retryNow() {
	select {
	case k.woken <- struct{}{}:
	default:
	}
}

func (k *keeper) connection() *connection {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conn
}

func (k *keeper) currentHealth() Health {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.health
}

// run connects and reconnects until ctx is done or the Cluster is deleted.
func (k *keeper) run(ctx context.Context) {
	ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithName("clustercache").WithValues("Cluster", klog.KRef(k.key.Namespace, k.key.Name)))
	defer k.end()
	retry := firstRetry
	for ctx.Err() == nil {
		err := recovery.Call(ctx, func() error { // of a cluster that it cannot handle, it tries again
			conn, err := k.connect(ctx)
			if err != nil {
				return err
			}
			retry, k.read = firstRetry, parsed{}
			k.replace(ctx, conn)
			return k.watchOver(ctx, conn)
		})
		if err == nil {
			continue // reconnect immediately, and keep the old one until then
		}
		if errors.Is(err, errGone) && k.cache.forget(k) {
			return
		}
		k.drop(ctx, err)
		if excess(err) != nil {
			retry = excessRetry
		}
		if k.sleep(ctx, jittered(retry)) {
			retry = firstRetry
		} else {
			retry = min(time.Duration(float64(retry)*retryFactor), lastRetry)
		}
	}
}

// sleep reports whether it was ended early by retryNow.
func (k *keeper) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-k.woken:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// jittered changes d by up to a tenth, so that clusters that failed together do not
// reconnect together.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// untilProbe returns the time until the next probe: an interval, or less.
func untilProbe(now time.Time) time.Duration {
	return now.Add(jittered(probeInterval)).Truncate(probeTogether).Sub(now)
}

// needed returns errGone when the connection is no longer needed.
func (k *keeper) needed(ctx context.Context) error {
	var cluster clusterv1.Cluster
	if err := k.cache.Mgmt.Get(ctx, k.key, &cluster); apierrors.IsNotFound(err) {
		return errGone
	} else if err != nil {
		return fmt.Errorf("get cluster %s: %w", k.key, err)
	}
	if !infrastructureProvisioned(&cluster) {
		return errGone
	}
	return nil
}

// kubeconfig reads the Secret of a connection that is needed.
func (k *keeper) kubeconfig(ctx context.Context) (*corev1.Secret, error) {
	if err := k.needed(ctx); err != nil {
		return nil, err
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: k.key.Namespace, Name: certs.SecretName(k.key.Name, certs.Kubeconfig)}
	if err := k.cache.Secrets.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		return nil, errNoKubeconfig
	} else if err != nil {
		return nil, fmt.Errorf("get secret %s: %w", key, err)
	}
	return &secret, nil
}

// connect returns a connection that has been verified.
func (k *keeper) connect(ctx context.Context) (*connection, error) {
	secret, err := k.kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := newConnection(k, secret)
	if err != nil {
		return nil, err
	}
	if err := k.prove(ctx, conn); err != nil {
		conn.close()
		return nil, err
	}
	return conn, nil
}

// prove takes a slot only for the first request: a server that has answered may
// take its time to list without blocking others.
func (k *keeper) prove(ctx context.Context, conn *connection) error {
	slots := k.cache.fresh
	if k.currentHealth().Failures > 0 {
		slots = k.cache.retries
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := conn.probe(ctx)
	<-slots
	if err != nil {
		return err
	}
	return conn.open(ctx)
}

// watchOver returns nil when the connection should be replaced, and an error when
// it can no longer be used.
func (k *keeper) watchOver(ctx context.Context, conn *connection) error {
	due := time.NewTimer(untilProbe(time.Now()))
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-conn.guard.exceeded:
			return err
		case <-conn.guard.unauthorized:
			ctrl.LoggerFrom(ctx).Info("Reconnecting to workload cluster", "reason", "it answered 401 Unauthorized")
			return nil
		case <-k.woken:
			secret, err := k.kubeconfig(ctx)
			if err != nil {
				return err
			}
			if !conn.madeFrom(secret) {
				ctrl.LoggerFrom(ctx).Info("Reconnecting to workload cluster", "reason", "its kubeconfig changed")
				return nil
			}
		case <-due.C:
			due.Reset(untilProbe(time.Now()))
			if err := k.needed(ctx); errors.Is(err, errGone) {
				return err
			}
			if err := conn.probe(ctx); k.probed(ctx, err) >= maxFailures {
				return err
			}
		}
	}
}

// probed records the result of a probe, and returns how many have failed since the
// last success. It notifies subscribers only when the result changes.
func (k *keeper) probed(ctx context.Context, err error) int {
	if ctx.Err() != nil {
		return 0
	}
	countProbe(k.key, err)
	k.mu.Lock()
	before := k.health
	if err == nil {
		k.health.Failures, k.health.LastProbeSuccess = 0, k.cache.Clock.Now()
		if k.health.Answering.IsZero() {
			k.health.Answering = k.health.LastProbeSuccess
		}
	} else {
		k.health.Failures++
		k.health.Answering = time.Time{}
	}
	k.health.Err = err
	failures := k.health.Failures
	k.mu.Unlock()
	if (before.Failures == 0) != (failures == 0) {
		ctrl.LoggerFrom(ctx).V(2).Info("Probed workload cluster", "healthy", err == nil, "reason", text(err))
		k.cache.subscribers.notify(k.key, nil)
	}
	return failures
}

// replace replaces an earlier connection by conn.
func (k *keeper) replace(ctx context.Context, conn *connection) {
	k.mu.Lock()
	old := k.conn
	k.conn = conn
	now := k.cache.Clock.Now()
	k.health = Health{Connected: true, LastProbeSuccess: now, Answering: now, Since: k.health.Since}
	k.mu.Unlock()
	if old != nil {
		old.close()
	}
	setUp(k.key, true)
	ctrl.LoggerFrom(ctx).Info("Connected to workload cluster")
	k.cache.subscribers.notify(k.key, nil)
}

// drop closes the connection, if there is one, and records why there is none.
func (k *keeper) drop(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	old, before := k.conn, k.health
	k.conn = nil
	k.health.Connected, k.health.Answering, k.health.Err = false, time.Time{}, err
	switch k.health.Failures++; {
	case errors.Is(err, errNoKubeconfig):
		k.health.Failures = 0 // nothing has failed: it is too early
	case excess(err) != nil:
		k.health.Failures = max(k.health.Failures, Persistent) // it is permanent
	}
	persists := before.Failures < Persistent && k.health.Failures >= Persistent
	k.mu.Unlock()
	if old != nil {
		old.close()
	}
	setUp(k.key, false)
	if before.Connected || persists || text(before.Err) != text(err) {
		ctrl.LoggerFrom(ctx).V(2).Info("Not connected to workload cluster", "reason", text(err))
		k.cache.subscribers.notify(k.key, nil)
	}
}

// end closes everything when the keeper is no longer needed.
func (k *keeper) end() {
	k.mu.Lock()
	old := k.conn
	k.conn, k.health = nil, Health{Since: k.health.Since}
	k.mu.Unlock()
	if old != nil {
		old.close()
	}
	forgetMetrics(k.key)
	k.cache.subscribers.notify(k.key, nil)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
