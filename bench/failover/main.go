// SPDX-License-Identifier: Apache-2.0

// Command failover measures the time without an active controller after the leader of the
// planes of one store is killed: from then until the controllers of another plane have
// created the ServiceAccount of a new namespace.
//
//	go run ./bench/failover -kills 5
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/bench/planes"
)

const (
	// lookEvery is the measurement error; hangs is when the takeover counts as failed.
	lookEvery = 20 * time.Millisecond
	hangs     = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	fs := flag.NewFlagSet("failover", flag.ExitOnError)
	binary := fs.String("capstan", "bin/capstan", "the program to measure")
	kills := fs.Int("kills", 5, "how often the plane that leads is killed")
	limit := fs.Duration("limit", 15*time.Second, "how long it may take each time, as promised")
	if err := fs.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "capstan-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f := &fleet{binary: *binary, dir: dir}
	defer func() { err = errors.Join(err, f.stop()) }()
	if err := f.start(ctx); err != nil {
		return err
	}
	var took []time.Duration
	for n := range *kills {
		d, err := f.lose(ctx, n)
		if err != nil {
			return fmt.Errorf("kill %d: %w", n+1, err)
		}
		took = append(took, d)
		fmt.Printf("kill %d: another plane acted after %.2f s\n", n+1, d.Seconds())
	}
	slices.Sort(took)
	if len(took) > 0 {
		fmt.Printf("least %.2f s, median %.2f s, most %.2f s, limit %s\n", took[0].Seconds(), took[len(took)/2].Seconds(), took[len(took)-1].Seconds(), *limit)
	}
	if len(took) > 0 && took[len(took)-1] > *limit {
		return fmt.Errorf("no plane acted for %s, which is more than %s", took[len(took)-1].Round(time.Millisecond), *limit)
	}
	return nil
}

// fleet is two planes that elect a leader, in the etcd of a third one.
type fleet struct {
	binary, dir string
	store       *planes.Process
	members     []member // the leader first
}

type member struct {
	dir     string
	process *planes.Process
}

func (f *fleet) start(ctx context.Context) (err error) {
	store := filepath.Join(f.dir, "store")
	if f.store, err = planes.Start(ctx, f.binary, store, nil); err != nil {
		return fmt.Errorf("the plane that has the store: %w", err)
	}
	first := filepath.Join(f.dir, "0")
	if err := f.add(ctx, first, "--etcd-servers=unix://"+filepath.Join(store, "run", "etcd.sock"), "--etcd-prefix=/taken"); err != nil {
		return err
	}
	return f.add(ctx, filepath.Join(f.dir, "1"), "--join="+filepath.Join(first, "join"))
}

func (f *fleet) add(ctx context.Context, dir string, flags ...string) error {
	p, err := planes.Start(ctx, f.binary, dir, flags)
	if err == nil {
		f.members = append(f.members, member{dir, p})
	}
	return err
}

// lose kills the leader, measures, and starts it again.
func (f *fleet) lose(ctx context.Context, n int) (time.Duration, error) {
	lost, left := f.members[0], f.members[1]
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(left.dir, "kubeconfig"))
	if err != nil {
		return 0, err
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := lost.process.Kill(); err != nil {
		return 0, err
	}
	f.members = f.members[1:]
	name := fmt.Sprintf("after-%d", n)
	if _, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	var last error // an API server that is busy after the loss is asked again
	if err := wait.PollUntilContextTimeout(ctx, lookEvery, hangs, true, func(ctx context.Context) (bool, error) {
		_, last = c.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return last == nil, nil
	}); err != nil {
		return 0, fmt.Errorf("wait for another plane to act: %w", errors.Join(err, last))
	}
	took := time.Since(begin)
	return took, f.add(ctx, lost.dir, "--join="+filepath.Join(f.dir, "0", "join"))
}

func (f *fleet) stop() error {
	var errs []error
	for _, m := range f.members {
		errs = append(errs, m.process.Stop())
	}
	if f.store != nil {
		errs = append(errs, f.store.Stop())
	}
	return errors.Join(errs...)
}
