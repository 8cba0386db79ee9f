// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// EndpointPath is where the API server of a plane answers with the plan of a change: the
// objects to apply are the body of a POST, as YAML or JSON.
const EndpointPath = "/capstan/v1/plans"

// Exit statuses of the program that makes plans, if there is a plan and it is not 0.
const (
	StatusMachinesGo   = 2
	StatusNotPredicted = 3
)

const (
	// longestPlan is the time limit of a plan, in which a class of a thousand Clusters
	// is planned.
	longestPlan = 15 * time.Minute
	// largestChange is the limit of a body in bytes, as that of a request to etcd.
	largestChange = 3 << 20
	// niceness is the CPU priority of a plan: that of the plane is 0.
	niceness = 10
	// longestError is how much of the text of an error is kept, in bytes.
	longestError = 16 << 10
)

// Endpoint makes plans for clients of the API server of a plane. Each is made by a process
// of its own, with the identity of the client: it reads what the client may read, and what
// it costs neither slows nor ends the plane.
type Endpoint struct {
	kubeconfig string
	program    func(ctx context.Context, args ...string) *exec.Cmd
	turn       chan struct{} // holds a value while a plan is made
}

// NewEndpoint returns the endpoint of the plane with this administrator's kubeconfig.
// program is the command of the program that makes plans, with these arguments.
func NewEndpoint(kubeconfig string, program func(ctx context.Context, args ...string) *exec.Cmd) *Endpoint {
	return &Endpoint{kubeconfig, program, make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), longestPlan)
	defer cancel()
	refused := e.plan(ctx, w, r)
	if refused == nil {
		return
	}
	status := refused.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(d.RetryAfterSeconds))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client has disconnected
}

// plan answers with a plan, or returns why there is none.
func (e *Endpoint) plan(ctx context.Context, w http.ResponseWriter, r *http.Request) *apierrors.StatusError {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, r.Method, schema.GroupResource{}, "", "POST the objects of a change", 0, true)
	}
	who, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewUnauthorized("a plan needs a client with a name")
	}
	args := []string{"plan", "--filename=-", "--output=json"}
	for name, values := range r.URL.Query() {
		flag := map[string]string{"namespace": "namespace", "fieldManager": "field-manager"}[name]
		if flag == "" || len(values) != 1 {
			return apierrors.NewBadRequest(fmt.Sprintf("parameter %q: once namespace and once fieldManager are allowed", name))
		}
		args = append(args, "--"+flag+"="+values[0])
	}
	change, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestChange))
	if err != nil {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("read the objects of the change, at most %d MiB: %v", largestChange>>20, err))
	}
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	default:
		return apierrors.NewTooManyRequests("another plan is being made: try again later", 10)
	}
	file, err := e.login(who)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("make a kubeconfig for the plan: %w", err))
	}
	defer func() { _ = os.Remove(file) }()
	return e.run(ctx, w, change, append(args, "--kubeconfig="+file))
}

// login writes a kubeconfig that has the identity of a client, and no other. There is one
// at a time: a file that a crash left is overwritten.
func (e *Endpoint) login(who user.Info) (file string, err error) {
	cfg, err := clientcmd.LoadFromFile(e.kubeconfig)
	if err != nil {
		return "", err
	}
	for _, as := range cfg.AuthInfos {
		as.Impersonate, as.ImpersonateUID, as.ImpersonateGroups, as.ImpersonateUserExtra = who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra()
	}
	data, err := clientcmd.Write(*cfg)
	if err != nil {
		return "", err
	}
	file = filepath.Join(filepath.Dir(e.kubeconfig), "plan.kubeconfig")
	return file, atomicfile.Write(file, data)
}

// run has the program make the plan, and passes it on.
func (e *Endpoint) run(ctx context.Context, w http.ResponseWriter, change []byte, args []string) *apierrors.StatusError {
	text, plan := firstBytes{}, &answer{ResponseWriter: w}
	cmd := e.program(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(change), plan, &text
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // for its priority
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return apierrors.NewInternalError(fmt.Errorf("start the program that makes plans: %w", err))
	}
	_ = syscall.Setpriority(syscall.PRIO_PGRP, cmd.Process.Pid, niceness) // it has ended already
	err := cmd.Wait()
	switch code := cmd.ProcessState.ExitCode(); {
	case plan.started && (code == 0 || code == StatusMachinesGo || code == StatusNotPredicted):
		return nil
	case plan.started:
		panic(http.ErrAbortHandler) // the plan is incomplete
	case ctx.Err() != nil:
		return apierrors.NewTimeoutError(fmt.Sprintf("the plan was not made in %s: plan a smaller change", longestPlan), 0)
	case code == 1:
		return apierrors.NewBadRequest(strings.TrimSpace(strings.TrimPrefix(string(text), "capstan: ")))
	default:
		return apierrors.NewInternalError(fmt.Errorf("make the plan: %w: %s", err, string(text)))
	}
}

// answer is the body of a response; started is set by its first byte.
type answer struct {
	http.ResponseWriter
	started bool
}

func (a *answer) Write(p []byte) (int, error) {
	if !a.started {
		a.started = true
		a.Header().Set("Content-Type", "application/json")
		a.Header().Set("Cache-Control", "no-store")
	}
	return a.ResponseWriter.Write(p)
}

type firstBytes []byte // of a text, at most longestError

func (b *firstBytes) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), longestError-len(*b))]...)
	return len(p), nil
}
