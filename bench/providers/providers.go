// SPDX-License-Identifier: Apache-2.0

// Package providers measures the cost of running providers on a plane: it builds an image
// of a small one, imports it, and has the plane run the requested number of instances.
package providers

import (
	"bytes"
	"context"
	_ "embed" // the objects of a provider are a file
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"text/template"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	manifest "github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/kit/certs"
)

// image is the name of the provider's image. No registry serves it.
const image = "example.com/bench-manager:v1"

// certificates is the validity of certificates, longer than any run.
const certificates = 24 * time.Hour

//go:embed provider.yaml
var objects string

// Bench is a plane whose providers are measured. All fields are needed.
type Bench struct {
	// Capstan is the program, Dir the plane's data directory, PID its process, and
	// Profiles the address at which it serves profiles.
	Capstan, Dir string
	PID          int
	Profiles     string
	// Config connects to its API server.
	Config *rest.Config
	// Count is how many providers run in the end.
	Count int
	// Settle is the delay before a measurement, and Window is how long the idle plane is
	// measured.
	Settle, Window time.Duration

	work   string // a folder for what is built
	server certs.Pair
	ca     []byte
	typed  kubernetes.Interface
	mgmt   client.Client
}

// Cost is the cost of providers. Memory and processor time are those of the plane, and of
// the process that holds the namespaces of each provider: not those of the providers
// themselves.
type Cost struct {
	Providers int `json:"providers"`
	// AvailableSeconds are from the Deployment of each to its being Available, in their
	// order. The image is already imported.
	AvailableSeconds []float64 `json:"availableSeconds"`
	// FirstMiB is the cost of the first one, with everything that is started for it, and
	// EachMiB that of each further one: memory in use after a collection, and the private
	// memory of the holder.
	FirstMiB  float64 `json:"firstMiB"`
	EachMiB   float64 `json:"eachMiB"`
	HolderMiB float64 `json:"holderMiB"`
	// ResidentMiB is the growth of the plane for all, including garbage that is not yet
	// collected.
	ResidentMiB float64 `json:"residentMiB"`
	// IdleCores is what all of them use in steady state, beyond the plane without them;
	// HoldersCores is the part of the holders.
	IdleCores    float64 `json:"idleCores"`
	HoldersCores float64 `json:"holdersCores"`
	// ServiceMilliseconds and DirectMilliseconds are medians of the same request, which
	// calls a webhook in a Pod by its Service, and one on this host by its URL.
	ServiceMilliseconds float64 `json:"serviceMilliseconds"`
	DirectMilliseconds  float64 `json:"directMilliseconds"`
	// AloneMilliseconds and CrowdedMilliseconds are 99th percentiles of the same requests
	// to the API server, without and with a Pod that forks without end.
	AloneMilliseconds   float64 `json:"aloneMilliseconds"`
	CrowdedMilliseconds float64 `json:"crowdedMilliseconds"`
}

// Run measures.
func (b *Bench) Run(ctx context.Context) (_ *Cost, err error) {
	if b.work, err = os.MkdirTemp("", "capstan-bench-providers-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	if b.typed, err = kubernetes.NewForConfig(b.Config); err != nil {
		return nil, err
	}
	if b.mgmt, err = client.New(b.Config, client.Options{}); err != nil {
		return nil, err
	}
	if err := b.certify(); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	if err := b.image(ctx); err != nil {
		return nil, fmt.Errorf("make the image of a provider: %w", err)
	}
	c := &Cost{Providers: b.Count}
	idle, err := b.idle(ctx)
	if err != nil {
		return nil, err
	}
	var uses []usage // with zero, one, and all providers
	for n := range b.Count + 1 {
		if n > 0 {
			took, err := b.provider(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("provider %d: %w", n, err)
			}
			c.AvailableSeconds = append(c.AvailableSeconds, took.Seconds())
		}
		if n > 1 && n < b.Count {
			continue
		}
		u, err := b.settled(ctx)
		if err != nil {
			return nil, err
		}
		uses = append(uses, u)
	}
	c.memory(uses[0], uses[1], uses[len(uses)-1])
	busy, err := b.idle(ctx)
	if err != nil {
		return nil, err
	}
	c.HoldersCores = busy.holders
	c.IdleCores = busy.plane + busy.holders - idle.plane
	if err := b.calls(ctx, c); err != nil {
		return c, err
	}
	return c, b.crowd(ctx, c)
}

// Slowest is the longest time until one became Available, in seconds.
func (c *Cost) Slowest() float64 { return slices.Max(c.AvailableSeconds) }

// ServiceAdds is how much longer a webhook in a Pod takes, in milliseconds.
func (c *Cost) ServiceAdds() float64 { return c.ServiceMilliseconds - c.DirectMilliseconds }

// CrowdRatio is how many times as long the slowest requests take with a Pod that forks.
func (c *Cost) CrowdRatio() float64 { return c.CrowdedMilliseconds / c.AloneMilliseconds }

// Table prints it for people; nothing if c is nil.
func (c *Cost) Table(row func(what, format string, args ...any)) {
	if c == nil {
		return
	}
	row("providers", "%d, Available after at most %.2f s, the first after %.2f s", c.Providers, c.Slowest(), c.AvailableSeconds[0])
	row("memory beyond their own", "%.1f MiB for the first, %.1f MiB for each other one, of which its holder %.1f MiB; the plane has grown by %.0f MiB", c.FirstMiB, c.EachMiB, c.HolderMiB, c.ResidentMiB)
	row("all in steady state", "%.4f cores beyond the plane's own, %.4f of them in holders", c.IdleCores, c.HoldersCores)
	row("webhook", "%.2f ms by a Service, %.2f ms by a URL of this host", c.ServiceMilliseconds, c.DirectMilliseconds)
	row("99th percentile of requests", "%.2f ms alone, %.2f ms with a Pod that forks: %.2f times", c.AloneMilliseconds, c.CrowdedMilliseconds, c.CrowdRatio())
}

// memory computes the cost of the first provider and of each further one.
func (c *Cost) memory(none, one, all usage) {
	c.FirstMiB = mib(one.live + one.holders - none.live)
	if c.Providers > 1 {
		c.EachMiB = mib(all.live+all.holders-one.live-one.holders) / float64(c.Providers-1)
	}
	c.HolderMiB = mib(all.holders) / float64(c.Providers)
	c.ResidentMiB = mib(all.resident - none.resident)
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// certify creates the certificate of all webhooks.
func (b *Bench) certify() error {
	now := time.Now()
	ca, err := certs.NewCA(certs.ECDSAP256, "bench", now, certificates)
	if err != nil {
		return err
	}
	b.ca = ca.Cert
	b.server, err = ca.Issue(certs.Leaf{
		CommonName: "webhook", DNSNames: []string{"manager." + namespace(1) + ".svc"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true,
		Now: now, Validity: certificates,
	})
	return errors.Join(err,
		os.WriteFile(filepath.Join(b.work, "tls.crt"), b.server.Cert, 0o600),
		os.WriteFile(filepath.Join(b.work, "tls.key"), b.server.Key, 0o600))
}

// image builds the provider, creates an image of it, and imports it into the plane.
func (b *Bench) image(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", b.manager(), "github.com/capstan-dev/capstan/bench/providers/manager")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	made, err := programs.Image(runtime.GOARCH, []string{b.manager()}, programs.Options{})
	if err != nil {
		return err
	}
	dir := filepath.Join(b.work, "image")
	if err := programs.Write(dir, image, made); err != nil {
		return err
	}
	load := exec.CommandContext(ctx, b.Capstan, "image", "import", "--data-dir", b.Dir, filepath.Join(dir, runtime.GOARCH+".tar"))
	if out, err := load.CombinedOutput(); err != nil {
		return fmt.Errorf("import: %w\n%s", err, out)
	}
	return nil
}

func (b *Bench) manager() string { return filepath.Join(b.work, "manager") }

func namespace(n int) string { return fmt.Sprintf("provider-%d", n) }

// provider installs the nth, and measures from its Deployment, which is created last, to
// its being Available.
func (b *Bench) provider(ctx context.Context, n int) (time.Duration, error) {
	text, err := template.New("provider").Parse(objects)
	if err != nil {
		return 0, err
	}
	var file bytes.Buffer
	encode := base64.StdEncoding.EncodeToString
	if err := text.Execute(&file, map[string]string{
		"namespace": namespace(n), "image": image, "cert": encode(b.server.Cert), "key": encode(b.server.Key),
	}); err != nil {
		return 0, err
	}
	all, err := manifest.Objects(file.Bytes())
	if err != nil {
		return 0, err
	}
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "manager").String()}
	var begin time.Time
	for _, obj := range all {
		begin = time.Now()
		if err := b.mgmt.Create(ctx, obj); err != nil {
			return 0, fmt.Errorf("create %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	changes, err := b.typed.AppsV1().Deployments(namespace(n)).Watch(ctx, only)
	if err != nil {
		return 0, fmt.Errorf("watch the Deployment: %w", err)
	}
	defer changes.Stop()
	for e := range changes.ResultChan() {
		if d, ok := e.Object.(*appsv1.Deployment); ok && d.Status.AvailableReplicas == 1 {
			return time.Since(begin), nil
		}
	}
	return 0, errors.Join(errors.New("the watch of the Deployment ended before it was Available"), ctx.Err())
}
