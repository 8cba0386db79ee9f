// SPDX-License-Identifier: Apache-2.0

// Command capstan-network runs on each node of a cluster of container machines, in
// the DaemonSet of that name, and connects the node's Pods with those of all others.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/host/podnetwork"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "capstan-network:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	return podnetwork.Run(ctx, os.Getenv("NODE_NAME"), config, os.Stderr)
}
