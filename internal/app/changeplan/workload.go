// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/shards"
	"github.com/capstan-dev/capstan/internal/app/changeplan/standin"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

const (
	// readTimeout bounds reading a workload cluster.
	readTimeout = 10 * time.Second
	// maxListed is the number of objects of a kind that are read.
	maxListed = 20000
)

// ErrNoAnswer is the error of a workload cluster that accepts connections and does not
// answer.
var ErrNoAnswer = errors.New("it accepts connections and does not answer")

var errTooMany = errors.New("it has too many objects to read")

// ReadWorkload reads what drains and health checks of a workload cluster depend on.
// It writes nothing, and ends after ten seconds.
func ReadWorkload(ctx context.Context, data []byte) (*standin.Snapshot, error) {
	cfg, err := kubeconfig.RESTConfig(data)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	var connected atomic.Bool
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		connected.Store(connected.Load() || err == nil)
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	defer httpClient.CloseIdleConnections()
	c, err := client.New(cfg, client.Options{Scheme: scheme.Scheme, HTTPClient: httpClient, Mapper: read()})
	if err != nil {
		return nil, err
	}
	s, err := readWorkload(ctx, c)
	if connected.Load() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return s, err
}

// read maps the kinds that are read: no request finds out what is known.
func read() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	return m
}

func readWorkload(ctx context.Context, c client.Reader) (*standin.Snapshot, error) {
	s := &standin.Snapshot{}
	var nodes corev1.NodeList
	err := each(ctx, c, &nodes, func() { s.Nodes = append(s.Nodes, nodes.Items...) })
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := each(ctx, c, &pods, func() { s.Pods = append(s.Pods, pods.Items...) }); err != nil {
		return nil, err
	}
	var budgets policyv1.PodDisruptionBudgetList
	err = each(ctx, c, &budgets, func() {
		for i := range budgets.Items {
			s.Others = append(s.Others, budgets.Items[i].DeepCopy())
		}
	})
	if apierrors.IsNotFound(err) {
		err = nil // a simulated cluster has none
	}
	return s, err
}

// each lists objects page by page, but not more than are read of a kind.
func each(ctx context.Context, c client.Reader, list client.ObjectList, add func()) error {
	read := 0
	return shards.EachPage(ctx, c, list, func() error {
		add()
		if read += shards.PageSize; read >= maxListed && list.GetContinue() != "" {
			return errTooMany
		}
		return nil
	})
}
