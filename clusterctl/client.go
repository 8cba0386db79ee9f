// SPDX-License-Identifier: Apache-2.0

// Package clusterctl is the library behind the commands that work on a
// management cluster. It never prints, reads the environment or exits: progress
// goes to a callback, and results are values.
package clusterctl

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/clusterctl/why"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

// Event is one line of progress of a long operation.
type Event struct {
	// Text describes what happened or what is awaited, for people.
	Text string
}

// Client works on one management cluster.
type Client struct {
	mgmt client.WithWatch
	raw  rest.Interface // for paths of the API server; nil: they are not used
	// Flags are what the command lines that errors advise carry, so that they mean
	// the same management cluster: nothing, or as " --data-dir /tmp/a".
	Flags string
}

// New returns a client of the management cluster behind cfg.
func New(cfg *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	mgmt, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	raw, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster: %w", err)
	}
	return &Client{mgmt: mgmt, raw: raw}, nil
}

// NewWithClient returns a client of the management cluster that mgmt accesses. The
// scheme of mgmt must include the kinds of clusterv1 and corev1.
func NewWithClient(mgmt client.WithWatch) *Client { return &Client{mgmt: mgmt} }

// NotInstalledError means that the management cluster does not serve a kind.
type NotInstalledError = references.NotInstalledError

func (c *Client) references() references.Reader { return references.Reader{Mgmt: c.mgmt} }

// ParseObject parses KIND/NAME from a command line. KIND is a kind or resource that a CRD
// defines, in any case, with its group if several groups have it.
func (c *Client) ParseObject(ctx context.Context, text, namespace string) (causes.Key, error) {
	return c.references().ParseObject(ctx, text, namespace)
}

// Why explains the state of an object.
func (c *Client) Why(ctx context.Context, key causes.Key) (causes.Result, error) {
	return why.Reader{Reader: c.references(), Raw: c.raw}.Explain(ctx, key)
}

// WhyReplaced explains why a Machine is or was replaced.
func (c *Client) WhyReplaced(ctx context.Context, key causes.Key) (causes.Replacement, error) {
	return why.Reader{Reader: c.references(), Raw: c.raw}.Replaced(ctx, key)
}

// list lists the objects with the label of a Cluster.
func (c *Client) list(ctx context.Context, key client.ObjectKey, into client.ObjectList) error {
	if err := c.mgmt.List(ctx, into, client.InNamespace(key.Namespace), references.OfCluster(key.Name)); err != nil {
		return fmt.Errorf("list objects of Cluster %s: %w", key, err)
	}
	return nil
}

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
