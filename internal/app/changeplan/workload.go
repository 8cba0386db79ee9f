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
	"k8s.io/apimachinery/pkg/runtime"
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
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}} {
		read := 0
		err := shards.EachPage(ctx, c, list, func() error {
			if read += shards.PageSize; read >= maxListed && list.GetContinue() != "" {
				return errTooMany
			}
			return meta.EachListItem(list, func(obj runtime.Object) error {
				s.Objects = append(s.Objects, obj.(client.Object))
				return nil
			})
		})
		if _, budgets := list.(*policyv1.PodDisruptionBudgetList); err != nil && !(budgets && apierrors.IsNotFound(err)) { // a simulated cluster has none
			return s, err
		}
	}
	return s, nil
}
