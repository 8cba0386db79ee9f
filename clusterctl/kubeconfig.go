// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

// Kubeconfig returns the admin kubeconfig of a workload cluster. A user who can write its
// Secret cannot have it execute or read anything: it has only the current context, with
// inline certificates, or is an error.
func (c *Client) Kubeconfig(ctx context.Context, key client.ObjectKey) ([]byte, error) {
	secret := &corev1.Secret{}
	err := c.mgmt.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: certs.SecretName(key.Name, certs.Kubeconfig)}, secret)
	if apierrors.IsNotFound(err) {
		return nil, c.noKubeconfig(ctx, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of Cluster %s: %w", key, err)
	}
	data, err := kubeconfig.Current(secret.Data[kubeconfig.DataKey])
	if err != nil {
		return nil, kubeconfig.InSecret(secret, err)
	}
	return data, nil
}

// noKubeconfig distinguishes a Cluster that does not exist from one that has no
// kubeconfig yet.
func (c *Client) noKubeconfig(ctx context.Context, key client.ObjectKey) error {
	err := references.Explain(c.mgmt.Get(ctx, key, &clusterv1.Cluster{}), clusterv1.ClusterKind)
	if apierrors.IsNotFound(err) {
		return &NoClusterError{Key: key, flags: c.Flags}
	}
	if err != nil {
		return fmt.Errorf("get Cluster %s: %w", key, err)
	}
	return fmt.Errorf("Cluster %s has no kubeconfig yet: it gets one as soon as its control plane endpoint is known; see `capstan describe cluster %s -n %s%s`", key, key.Name, key.Namespace, c.Flags)
}
