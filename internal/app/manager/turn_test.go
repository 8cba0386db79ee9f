// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
)

// TestControllersWaitForTheirTurn checks that the elector of the managers waits,
// and then holds the lock for weeks.
func TestControllersWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leads, led := make(chan struct{}), make(chan struct{})
		var opts ctrlmanager.Options
		Options{Leads: leads}.waitFor(&opts)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: opts.LeaderElectionResourceLockInterface, LeaseDuration: *opts.LeaseDuration, RenewDeadline: *opts.RenewDeadline, RetryPeriod: *opts.RetryPeriod,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(led) }, OnStoppedLeading: func() {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { elector.Run(ctx); close(ended) }()
		time.Sleep(30 * 24 * time.Hour)
		synctest.Wait()
		select {
		case <-led:
			t.Error("it acts before its turn")
		default:
		}
		close(leads)
		<-led
		time.Sleep(30 * 24 * time.Hour)
		synctest.Wait()
		select {
		case <-ended:
			t.Error("it gave its turn away")
		default:
		}
		cancel()
		<-ended
	})
}
