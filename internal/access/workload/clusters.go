// SPDX-License-Identifier: Apache-2.0

// Package workload talks to the API servers of workload clusters.
//
// A Cache holds one connection per Cluster. Nobody waits for a network in it:
// who asks for a cluster that is not connected gets ErrNotConnected at once,
// and is woken by a Source when that changes. One goroutine per cluster
// connects, checks health and reconnects, so a cluster that hangs costs the
// others nothing.
//
// Answers of a workload cluster are a tenant's: their size is bounded,
// redirects are not followed, and nonsense is an error in Health.
package workload

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// ErrNotConnected is returned while there is no connection to a cluster. It
// is a state to wait in, not a failure: a Source wakes whoever waits.
var ErrNotConnected = errors.New("workload cluster is not connected")

// NodeByProviderID is the field by which Nodes can be listed from the cache,
// with client.MatchingFields.
const NodeByProviderID = "spec.providerID"

// Clusters gives access to workload clusters by the key of their Cluster.
type Clusters interface {
	// Client reads Nodes, and control plane Pods (namespace kube-system, label
	// tier=control-plane), from a cache, and everything else directly. Cached
	// objects lack managed fields, heartbeats, a Node's images, and what of a
	// Pod's spec nobody here reads. It never blocks.
	Client(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	// Config is for connections that a client cannot make, as port-forwards.
	Config(cluster client.ObjectKey) (*rest.Config, error)
	// Health tells the state of the connection. It never blocks.
	Health(cluster client.ObjectKey) Health
	// Source wakes a controller by events of Nodes or control plane Pods in
	// every connected cluster, or, with a nil obj, by changes of Health. What is
	// there when a connection comes up is told by that alone.
	// ToRequests must not change obj, nor block.
	//
	// With a PartialObjectMetadata it wakes by changes of the definitions of kinds
	// (CRDs) of the clusters for which AwaitKinds was called; obj is empty then.
	Source(obj client.Object, toRequests ToRequests) source.Source
	// AwaitKinds has those definitions watched for some minutes. It does nothing
	// while the cluster is not connected.
	AwaitKinds(cluster client.ObjectKey)
}

// ToRequests names the objects to reconcile because of an event in a workload
// cluster. Obj is nil for a change of the connection itself.
type ToRequests func(ctx context.Context, cluster client.ObjectKey, obj client.Object) []reconcile.Request

// Health is the state of a connection.
type Health struct {
	Connected        bool
	LastProbeSuccess time.Time // zero if there never was one
	Answering        time.Time // since when each probe has succeeded on this connection; zero while they fail: what is known is no older, nor out of date
	Since            time.Time // when this process began to know the cluster
	Failures         int       // consecutive failed probes or attempts to connect
	Err              error     // why the last probe or attempt failed; nil after a success
}

// Persistent is how many failures in a row are no longer those of a server that
// is on its way: about six seconds of attempts.
const Persistent = 8

// firstContact is in which time a process that has just started finds out
// whether a cluster answers; what persists does so after about six seconds.
const firstContact = 10 * time.Second

// Untried is how much longer a process that has just started may need to find
// out whether the cluster answers.
func (h Health) Untried(now time.Time) time.Duration {
	switch {
	case !h.LastProbeSuccess.IsZero() || h.Failures >= Persistent:
		return 0
	case h.Since.IsZero():
		return firstContact // it has not heard of the cluster yet
	}
	return max(0, h.Since.Add(firstContact).Sub(now))
}

// Why is the reason of the last failure once failures persist, else "".
func (h Health) Why() string {
	if h.Failures < Persistent || h.Err == nil {
		return ""
	}
	return h.Err.Error()
}

// GraceStarts is from when on the loss of the connection is forgiven for a
// while: the last success. A process that has just started had none. Of a
// cluster that answered an earlier process it knows no better than that one,
// so what was known then is forgiven from the moment this one began to ask.
// Zero means that there is nothing to forgive: the cluster never answered.
func (h Health) GraceStarts(answeredBefore bool) time.Time {
	if h.LastProbeSuccess.IsZero() && answeredBefore {
		return h.Since
	}
	return h.LastProbeSuccess
}
