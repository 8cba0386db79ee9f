// SPDX-License-Identifier: Apache-2.0

package history

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/shards"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/cli/logs"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// maxLog is how much of the end of the plane's log a report has, in bytes: days of a plane
// in steady state.
const maxLog = 16 << 20

// alsoReported are the kinds of Kubernetes in a report, in addition to those of Cluster
// API. They have no Secrets and no ConfigMaps.
var alsoReported = []schema.GroupResource{
	{Resource: "namespaces"}, {Resource: "nodes"}, {Resource: "pods"}, {Resource: "events"}, {Group: "apps", Resource: "deployments"},
}

type reportOptions struct {
	mgmt  command.MgmtFlags
	force bool
}

// NewReport returns the command report.
func NewReport(env *command.Env) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Collect a report for support in one file",
		Long: `Collect a report for support in one file, a tar.gz: the objects of Cluster API and
their Events, the recorded decisions, versions, metrics and, for the plane of a
data directory, the end of its log. contents.txt in it lists everything, and what
could not be read.

The report has no Secrets and no ConfigMaps. Values of other objects that may be
secret, such as files and commands of a KubeadmConfig, are replaced by hashes. Read
the report before you give it to others: texts of users can be in it.`,
		Example: `  capstan report support.tar.gz
  capstan replay support.tar.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return command.Misuse(errors.New("name one file to write the report to"))
			}
			return runReport(cmd.Context(), env, &o, args[0])
		},
	}
	o.mgmt.Add(cmd, env)
	cmd.Flags().BoolVar(&o.force, "force", false, "replace the file if it exists")
	return cmd
}

func runReport(ctx context.Context, env *command.Env, o *reportOptions, name string) error {
	if _, err := os.Lstat(name); err == nil && !o.force {
		return fmt.Errorf("%s exists: choose another name, or replace it with --force", name)
	}
	m, err := o.mgmt.Load(env)
	if err != nil {
		return err
	}
	r := &report{now: env.Now(), redactor: decisions.New()}
	if err := r.collect(ctx, m); err != nil {
		return err
	}
	content, err := r.archive()
	if err != nil {
		return err
	}
	if err := write(name, content, o.force); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	env.Say("%s has %d files:", name, len(r.files))
	env.Print("%s", strings.TrimSpace(r.contents()))
	return nil
}

// write writes a file that only its owner can read.
func write(name string, content []byte, replace bool) error {
	if replace {
		return atomicfile.WriteOutput(name, content)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: choose another name, or replace it with --force", err)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// report is what has been collected so far.
type report struct {
	now      time.Time
	redactor *decisions.Recorder
	files    []collected
	missing  []string // what could not be read, and why
}

// collected is one file of a report.
type collected struct {
	name, what string
	content    []byte
}

func (r *report) add(name, what string, content []byte, err error) {
	if err != nil {
		r.missing = append(r.missing, fmt.Sprintf("%s: %v", name, err))
	}
	if len(content) > 0 {
		r.files = append(r.files, collected{name, what, content})
	}
}

// collect reads everything. Only a management cluster that does not answer is an error.
func (r *report) collect(ctx context.Context, m command.Mgmt) error {
	raw, err := command.RawClient(m.Config, runtime.NewScheme())
	if err != nil {
		return err
	}
	server, err := raw.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the management cluster: %w", err)
	}
	versions, err := json.MarshalIndent(struct {
		Client buildinfo.Info  `json:"client"`
		Server json.RawMessage `json:"server"`
	}{buildinfo.Read(), server}, "", "  ")
	r.add("version.json", "versions of this program and of the API server", versions, err)
	all, err := read(ctx, m, "")
	text, encodeErr := decisions.Encode(decisions.List{Decisions: all})
	r.add(decisionsFile, fmt.Sprintf("%d recorded decisions, for capstan replay", len(all)), text, errors.Join(err, encodeErr))
	metrics, err := raw.Get().AbsPath("/metrics").DoRaw(ctx)
	r.add("metrics.txt", "metrics of the API server", metrics, err)
	r.objects(ctx, m)
	if m.Dir != "" {
		path, err := logs.FileOf(m.Dir)
		var end []byte
		if err == nil {
			end, err = tail(path, maxLog)
		}
		r.add("plane.log", "the end of the plane's log", end, err)
	}
	return nil
}

// objects adds the objects of each kind.
func (r *report) objects(ctx context.Context, m command.Mgmt) {
	found, err := discovery.NewDiscoveryClientForConfig(m.Config)
	var lists []*metav1.APIResourceList
	if err == nil {
		lists, err = found.ServerPreferredResources()
	}
	c, clientErr := client.New(m.Config, client.Options{})
	r.add("objects", "", nil, errors.Join(err, clientErr))
	if clientErr != nil {
		return
	}
	for _, l := range lists {
		version, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue // the API server serves no such version
		}
		for _, kind := range l.APIResources {
			resource := version.WithResource(kind.Name)
			if slices.Contains(kind.Verbs, "list") && reported(resource.GroupResource()) {
				content, n, err := r.list(ctx, c, version.WithKind(kind.Kind))
				r.add("objects/"+resource.GroupResource().String()+".json", fmt.Sprintf("%d objects", n), content, err)
			}
		}
	}
}

// reported reports whether a report has the objects of a kind: those of Cluster API, and
// those of providers, whose groups start with their role.
func reported(of schema.GroupResource) bool {
	role, _, _ := strings.Cut(of.Group, ".")
	return of.Group == "cluster.x-k8s.io" || strings.HasSuffix(of.Group, ".cluster.x-k8s.io") ||
		slices.Contains([]string{"infrastructure", "bootstrap", "controlplane"}, role) || slices.Contains(alsoReported, of)
}

// list returns all objects of a kind as JSON, one in each line.
func (r *report) list(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) (content []byte, n int, err error) {
	page := &unstructured.UnstructuredList{}
	page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = shards.EachPage(ctx, c, page, func() error {
		for i := range page.Items {
			text, err := page.Items[i].MarshalJSON()
			if err != nil {
				return err
			}
			content = append(append(content, r.redactor.Redact(text)...), '\n')
			n++
		}
		return nil
	})
	return content, n, err
}

// tail returns the last bytes of a file.
func tail(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
}

// contents lists what is in the report, and what is missing.
func (r *report) contents() string {
	var out strings.Builder
	for _, f := range r.files {
		_, _ = fmt.Fprintf(&out, "%9d  %-60s %s\n", len(f.content), f.name, f.what)
	}
	for _, m := range r.missing {
		_, _ = fmt.Fprintf(&out, "  missing  %s\n", m)
	}
	return out.String()
}

// archive returns the report as tar.gz.
func (r *report) archive() ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	for _, f := range append([]collected{{"contents.txt", "", []byte(r.contents())}}, r.files...) {
		err := files.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.content)), ModTime: r.now})
		if err == nil {
			_, err = files.Write(f.content)
		}
		if err != nil {
			return nil, fmt.Errorf("write %s to the report: %w", f.name, err)
		}
	}
	err := errors.Join(files.Close(), zipped.Close())
	return out.Bytes(), err
}
