// SPDX-License-Identifier: Apache-2.0

// Package workload accesses the API servers of workload clusters.
//
// A Cache holds one connection per Cluster. Its methods never wait for a network:
// for a cluster that is not connected they return ErrNotConnected immediately, and
// a Source triggers a reconcile when that changes. One goroutine per cluster
// connects, checks health and reconnects, so a cluster that hangs does not affect
// the others.
//
// Responses of a workload cluster are not trusted: their size is limited, redirects
// are not followed, and invalid ones are an error in Health.
//
// DeploymentUpgrading and PoolUpgrading report whether workers are being updated to
// another version: their desired version does not show which version runs.
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

// ErrNotConnected is returned while there is no connection to a cluster. It means
// to wait and is no failure: a Source triggers a reconcile when there is a
// connection.
var ErrNotConnected = errors.New("workload cluster is not connected")

// NodeByProviderID is the field by which Nodes can be listed from the cache,
// with client.MatchingFields.
const NodeByProviderID = "spec.providerID"

// Clusters gives access to workload clusters by the key of their Cluster.
type Clusters interface {
	// Client reads Nodes, and control plane Pods (namespace kube-system, label
	// tier=control-plane), from a cache, and everything else directly. Cached objects
	// lack managed fields, heartbeats, a Node's images, and unused fields of a Pod's
	// spec. It never blocks.
	Client(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	// Config is for connections that a client cannot open, such as port-forwards.
	Config(cluster client.ObjectKey) (*rest.Config, error)
	// Health returns the state of the connection. It never blocks.
	Health(cluster client.ObjectKey) Health
	// Source triggers a controller by events of Nodes or control plane Pods in every
	// connected cluster, or, with a nil obj, by changes of Health. Objects that exist
	// when a connection is established cause no event except that change. ToRequests
	// must not change obj, nor block.
	//
	// With a PartialObjectMetadata it triggers by changes of the definitions of kinds
	// (CRDs) of the clusters for which AwaitKinds was called; obj is empty then.
	Source(obj client.Object, toRequests ToRequests) source.Source
	// AwaitKinds watches those definitions for some minutes. It does nothing while the
	// cluster is not connected.
	AwaitKinds(cluster client.ObjectKey)
}

// ToRequests returns the objects to reconcile because of an event in a workload
// cluster. Obj is nil for a change of the connection itself.
type ToRequests func(ctx context.Context, cluster client.ObjectKey, obj client.Object) []reconcile.Request

// Health is the state of a connection.
type Health struct {
	Connected        bool
	LastProbeSuccess time.Time // zero if there never was one
	Answering        time.Time // since when each probe has succeeded on this connection; zero while they fail: cached data is neither older nor out of date
	Since            time.Time // when this process first received the cluster
	Failures         int       // consecutive failed probes or attempts to connect
	Err              error     // why the last probe or attempt failed; nil after a success
}

// Persistent is the number of failures in a row that exceeds those of a starting
// server: about six seconds of attempts.
const Persistent = 8

// firstContact is the time in which a newly started process determines whether a
// cluster answers; persistent failures do so after about six seconds.
const firstContact = 10 * time.Second

// Untried returns how much longer a newly started process may need to determine
// whether the cluster answers.
func (h Health) Untried(now time.Time) time.Duration {
	switch {
	case !h.LastProbeSuccess.IsZero() || h.Failures >= Persistent:
		return 0
	case h.Since.IsZero():
		return firstContact // it has not received the cluster yet
	}
	return max(0, h.Since.Add(firstContact).Sub(now))
}

// Why returns the reason of the last failure once failures persist, else "".
func (h Health) Why() string {
	if h.Failures < Persistent || h.Err == nil {
		return ""
	}
	return h.Err.Error()
}

// GraceStarts returns the start of the grace period after the loss of the
// connection: the last success. A newly started process had none. If a cluster
// answered an earlier process, this one has no newer status, so the grace period
// starts with its first attempt. Zero means that there is no grace period: the
// cluster never answered.
func (h Health) GraceStarts(answeredBefore bool) time.Time {
	if h.LastProbeSuccess.IsZero() && answeredBefore {
		return h.Since
	}
	return h.LastProbeSuccess
}
