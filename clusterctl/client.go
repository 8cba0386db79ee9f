// SPDX-License-Identifier: Apache-2.0

// Package clusterctl is the library behind the commands that work on a
// management cluster. It never prints, reads the environment or exits: progress
// goes to a callback, and results are values.
package clusterctl

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Event is one line of progress of a long operation.
type Event struct {
	// Text describes what happened or what is awaited, for people.
	Text string
}

// Client works on one management cluster.
type Client struct {
	mgmt client.WithWatch
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
	return NewWithClient(mgmt), nil
}

// NewWithClient returns a client of the management cluster that mgmt accesses. The
// scheme of mgmt must include the kinds of clusterv1 and corev1.
func NewWithClient(mgmt client.WithWatch) *Client { return &Client{mgmt: mgmt} }

// NotInstalledError means that the management cluster does not serve a kind.
type NotInstalledError struct{ Kind string }

func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("the management cluster does not know the kind %s: is this a Capstan management cluster (`capstan status`), and is the provider of that kind installed?", e.Kind)
}

// explain turns the API machinery's word for a missing CRD into ours.
func explain(err error, kind string) error {
	if meta.IsNoMatchError(err) {
		return &NotInstalledError{kind}
	}
	return err
}
