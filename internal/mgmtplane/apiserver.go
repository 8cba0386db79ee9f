// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/capstan-dev/capstan/internal/kit/handlertransport"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/mgmtplane/crdconversion"
	"github.com/capstan-dev/capstan/internal/mgmtplane/kubecontrollers"
	"github.com/capstan-dev/capstan/internal/mgmtplane/openapi"
	"github.com/capstan-dev/capstan/internal/mgmtplane/relay"
	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// readyTimeout is many times the duration of a start on a busy machine: it ends
	// a start that hangs.
	readyTimeout = 60 * time.Second
	// interruptedTimeout is how long an interrupted start waits for the API server,
	// which needs a second or two.
	interruptedTimeout = 10 * time.Second

	// A write computes for some milliseconds and waits about as long for the disk,
	// where etcd batches concurrent writes.
	writesPerCPU    = 4
	minWritesAtOnce = 8
	// connectionsTimeout is how long a stop waits for connections to become idle.
	// Those of start hooks that a stop interrupts never do.
	connectionsTimeout = 5 * time.Second
)

type apiServerInput struct {
	listener net.Listener
	keys     pki.Folder
	etcd     []string
	own      *ownObjects
	dial     Dial // to addresses in the cluster
}

// flags returns the flags of kube-apiserver. All others have their default.
func (c *completed) flags(in apiServerInput) []string {
	flags := []string{
		"--etcd-servers=" + strings.Join(in.etcd, ","),
		"--etcd-prefix=" + c.Etcd.Prefix,
		"--etcd-cafile=" + c.Etcd.CAFile,
		"--etcd-certfile=" + c.Etcd.CertFile,
		"--etcd-keyfile=" + c.Etcd.KeyFile,
		"--etcd-db-metric-poll-interval=0",
		"--watch-cache-sizes=" + strings.Join(uncached, "#0,") + "#0",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // no Endpoints object may have 127.0.0.1
		"--service-cluster-ip-range=" + podspec.ServiceRange,
		"--tls-cert-file=" + in.keys.Cert("apiserver"),
		"--tls-private-key-file=" + in.keys.Key("apiserver"),
		"--client-ca-file=" + in.keys.Cert("ca"),
		"--requestheader-client-ca-file=" + in.keys.Cert("front-proxy-ca"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + in.keys.Cert("front-proxy-client"),
		"--proxy-client-key-file=" + in.keys.Key("front-proxy-client"),
		"--kubelet-certificate-authority=" + in.keys.Cert("ca"),
		"--kubelet-client-certificate=" + in.keys.Cert(pki.KubeletClient),
		"--kubelet-client-key=" + in.keys.Key(pki.KubeletClient),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--service-account-key-file=" + in.keys.Key("sa"),
		"--service-account-signing-key-file=" + in.keys.Key("sa"),
		"--service-account-issuer=" + issuer,
		"--authorization-mode=RBAC",
		"--profiling=false",
		"--shutdown-delay-duration=0s",
		// Without it the watches of a manager in another process keep their
		// connection open, and a stop waits connectionsTimeout for it.
		"--shutdown-watch-termination-grace-period=2s",
		// One machine, few clients, all trusted: fairness between them costs CPU on
		// each request without a benefit.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=2000",
		"--max-mutating-requests-inflight=1000",
		// There is one API server without peers. The initial content of a cache,
		// the API server's own or one of the controllers, is read as a list: in a
		// watch each object would be an event, parsed three times.
		"--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false,WatchListClient=false",
	}
	return flags
}

// startAPIServer builds and runs the aggregator, kube-apiserver and
// apiextensions-apiserver, and waits until they report that they are ready, except
// for their own objects.
func (c *completed) startAPIServer(ctx context.Context, p *Plane, config app.CompletedConfig) error {
	server, err := app.CreateServerChain(config)
	if err != nil {
		return fmt.Errorf("build the API server: %w", err)
	}
	kube, ok := server.GenericAPIServer.NextDelegate().(*genericapiserver.GenericAPIServer)
	if !ok {
		return fmt.Errorf("build the API server: behind the aggregator is a %T", server.GenericAPIServer.NextDelegate())
	}
	openapi.Serve(kube, config.KubeAPIs.ControlPlane.Generic.Config)
	extensions, ok := kube.NextDelegate().(*genericapiserver.GenericAPIServer)
	if !ok {
		return fmt.Errorf("build the API server: behind kube-apiserver is a %T", kube.NextDelegate())
	}
	if err := openapi.ServeDefinitions(server.GenericAPIServer, extensions, config.ApiExtensions.GenericConfig.Config); err != nil {
		return err
	}
	server.GenericAPIServer.ShutdownTimeout = connectionsTimeout
	for path, handler := range c.Handlers {
		if strings.HasSuffix(path, "/") {
			server.GenericAPIServer.Handler.NonGoRestfulMux.HandlePrefix(path, handler)
		} else {
			server.GenericAPIServer.Handler.NonGoRestfulMux.Handle(path, handler)
		}
	}
	c.serveOthers(p, server.GenericAPIServer.Handler.NonGoRestfulMux)
	prepared, err := server.PrepareRun()
	if err != nil {
		return fmt.Errorf("prepare the API server: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go recovery.Func(run, func() {
		err := recovery.Call(run, func() error { return prepared.Run(run) })
		if err == nil && run.Err() == nil {
			err = errors.New("stopped by itself")
		}
		if err != nil {
			p.fail(fmt.Errorf("API server: %w", err))
		}
		ended <- err
	})()
	p.stack.Push("API server", func(ctx context.Context) error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	p.config = inProcess(server.GenericAPIServer)
	if p.others.client != nil {
		p.config.Transport = fence{p.config.Transport, p.others.mayAct}
	}
	return waitReady(ctx, p)
}

// configure builds the configuration of the API server. It does not need etcd yet.
func (c *completed) configure(ctx context.Context, in apiServerInput) (config app.CompletedConfig, err error) {
	s := options.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, f := range s.Flags().FlagSets {
		fs.AddFlagSet(f)
	}
	if err := fs.Parse(c.flags(in)); err != nil {
		return config, err
	}
	tcp, ok := in.listener.Addr().(*net.TCPAddr)
	if !ok {
		return config, fmt.Errorf("listener has address %s, which is not TCP", in.listener.Addr())
	}
	s.SecureServing.Listener, s.SecureServing.BindPort = in.listener, tcp.Port
	s.SecureServing.BindAddress, s.SecureServing.ExternalAddress = tcp.IP, net.IPv4(127, 0, 0, 1)
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return config, err
	}
	o, err := s.Complete(context.WithoutCancel(ctx))
	if err != nil {
		return config, err
	}
	if errs := o.Validate(); len(errs) > 0 {
		return config, utilerrors.NewAggregate(errs)
	}
	cfg, err := c.newConfig(o, in.dial)
	if err != nil {
		return config, err
	}
	for _, v := range []*compatibility.EffectiveVersion{
		&cfg.Aggregator.GenericConfig.EffectiveVersion,
		&cfg.KubeAPIs.ControlPlane.Generic.EffectiveVersion,
		&cfg.ApiExtensions.GenericConfig.EffectiveVersion,
	} {
		*v = namedVersion{*v, c.kubernetes}
	}
	takeTurns(&cfg.Aggregator.GenericConfig.Config)
	letLast(&cfg.Aggregator.GenericConfig.Config, append(c.Lasting, relay.Path))
	openapi.Defer(cfg.KubeAPIs.ControlPlane.Generic)
	openapi.Defer(&cfg.ApiExtensions.GenericConfig.Config)
	if c.Conversion != nil {
		crdconversion.Convert(cfg.ApiExtensions, c.Conversion)
	}
	for _, generic := range []*genericapiserver.Config{&cfg.Aggregator.GenericConfig.Config, cfg.KubeAPIs.ControlPlane.Generic, &cfg.ApiExtensions.GenericConfig.Config} {
		generic.AdmissionControl = admission.NewChainHandler(generic.AdmissionControl, kubecontrollers.Asked(c.Workloads), gate{}) // which is the last one
	}
	if err := in.own.replace(cfg.KubeAPIs.ControlPlane.Generic); err != nil {
		return config, err
	}
	return cfg.Complete()
}

// takeTurns limits the number of concurrent writes; see inflight.Limit. It is
// called after authorization, in the server that receives all requests. Reads do
// not count, and neither do reviews: serving a write may need them, and would wait
// for itself.
func takeTurns(c *genericapiserver.Config) {
	build, atOnce := c.BuildHandlerChainFunc, max(minWritesAtOnce, writesPerCPU*runtime.GOMAXPROCS(0))
	c.BuildHandlerChainFunc = func(h http.Handler, c *genericapiserver.Config) http.Handler {
		return build(handlertransport.LimitYAML(handlertransport.Limit(withoutKnownWarnings(h), atOnce, func(r *http.Request) bool {
			info, ok := request.RequestInfoFrom(r.Context())
			return ok && info.IsResourceRequest && !readVerbs.Has(info.Verb) && !strings.HasSuffix(info.Resource, "reviews") && !c.LongRunningFunc(r, info)
		}), c.MaxRequestBodyBytes), c)
	}
}

// letLast exempts paths, such as that of connections for other planes, from the time
// limit of a request.
func letLast(c *genericapiserver.Config, paths []string) {
	long := c.LongRunningFunc
	c.LongRunningFunc = func(r *http.Request, info *request.RequestInfo) bool {
		return long(r, info) || !info.IsResourceRequest && slices.Contains(paths, info.Path)
	}
}

var readVerbs = sets.New("get", "list", "watch")

// namedVersion is a version with a name; see kubernetesVersion.
type namedVersion struct {
	compatibility.EffectiveVersion
	name string
}

func (v namedVersion) Info() *version.Info {
	info := v.EffectiveVersion.Info()
	if info == nil {
		return nil
	}
	info.GitVersion, info.GitTreeState, info.GitCommit = v.name, "clean", ""
	return info
}

// waitReady polls /readyz through the handlers themselves until it is 200, except
// for ownObjects: the next step needs none of them. An interrupt waits for that as
// well: stopping the server makes its start hooks fail, which upstream treats as
// fatal.
func waitReady(ctx context.Context, p *Plane) error {
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		return err
	}
	deadline := time.NewTimer(readyTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last string
	for interrupted := ctx.Done(); ; {
		if last, err = notReady(context.WithoutCancel(ctx), client, p.config.Host); err != nil {
			return fmt.Errorf("ask whether the API server is ready: %w", err)
		}
		if last == "" {
			return ctx.Err()
		}
		select {
		case <-tick.C:
		case err := <-p.errs:
			return err
		case <-interrupted:
			interrupted = nil
			deadline.Reset(interruptedTimeout)
		case <-deadline.C:
			return fmt.Errorf("API server is not ready after %s: %s", readyTimeout, last)
		}
	}
}

// notReady returns what the server still waits for; "" means it is ready.
func notReady(ctx context.Context, client *http.Client, host string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/readyz?verbose&exclude="+ownObjectsCheck, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		return "", nil
	}
	return failedChecks(res)
}

// failedChecks lists the failed checks in a /readyz?verbose response.
func failedChecks(res *http.Response) (string, error) {
	var failed []string
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "[-]"); ok {
			name, _, _ = strings.Cut(name, " ")
			failed = append(failed, name)
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("status %d, waiting for %s", res.StatusCode, strings.Join(failed, ", ")), nil
}

// inProcess returns a config whose requests call the server's handlers
// directly, with authentication, authorization and admission, but without
// TLS, HTTP/2 frames and sockets: those cost more than most requests do.
func inProcess(server *genericapiserver.GenericAPIServer) *rest.Config {
	return &rest.Config{
		Host:        "http://in-process",
		BearerToken: server.LoopbackClientConfig.BearerToken,
		Transport:   handlertransport.Transport(server.Handler),
		QPS:         -1,
	}
}

// uncached are the Kubernetes kinds without a watch cache in the API server. They
// are for clusters with nodes and are rare or absent in a management cluster, where
// only the garbage collector watches them; each cache runs once a second to check
// whether a watch needs a bookmark. They are served from etcd, as Events are in all
// clusters. Leases are not among them: providers renew theirs every two seconds,
// which would read from etcd what it replaces.
var uncached = []string{
	"controllerrevisions.apps", "daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps",
	"endpoints", "limitranges", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "resourcequotas",
	"cronjobs.batch", "horizontalpodautoscalers.autoscaling", "jobs.batch", "poddisruptionbudgets.policy",
	"certificatesigningrequests.certificates.k8s.io",
	"flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	"ingressclasses.networking.k8s.io", "ingresses.networking.k8s.io", "ipaddresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "servicecidrs.networking.k8s.io",
	"deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io", "resourceslices.resource.k8s.io",
	"priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io",
	"csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io", "storageclasses.storage.k8s.io",
	"volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io",
}
