// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/server"
)

// A complete extension: it blocks the creation of Clusters that do not name an owner.
func Example() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := server.New(server.Options{Address: "127.0.0.1:9443"})
	if err != nil {
		return err
	}
	if err := server.Handle(s, hooksv1.BeforeClusterCreate, wantOwner); err != nil {
		return err
	}
	return s.Start(ctx)
}

func wantOwner(_ context.Context, req *hooksv1.BeforeClusterCreateRequest, resp *hooksv1.BeforeClusterCreateResponse) error {
	if req.Cluster.Labels["owner"] == "" {
		resp.Message = "waiting for the label owner"
		resp.RetryAfterSeconds = 30
	}
	return nil
}
