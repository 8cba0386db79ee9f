// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
)

// ClusterName is the name, and the namespace, of the Cluster that the built-in
// requests are about.
const ClusterName = "capstan-conformance"

// Config defines which server is checked and how.
type Config struct {
	// URL is the server's address, https://host:port/path.
	URL string

	// Address is host:port where the server is reached instead. It is for a Service whose
	// name this host cannot resolve, such as one that is forwarded: URL is then
	// https://<name>.<namespace>.svc:port/path, for which the certificate is still
	// verified.
	Address string

	// CABundle holds the PEM certificates that the server's certificate is
	// verified with; those of the system when empty.
	CABundle []byte

	// ClientCertFile and ClientKeyFile are what the suite presents to a server that
	// requests a client certificate. Both or neither.
	ClientCertFile, ClientKeyFile string

	// Name is the name of the ExtensionConfig, which is the suffix of the full names of
	// handlers; extension when empty.
	Name string

	// Settings are sent with every request, as those of an ExtensionConfig.
	Settings map[string]string

	// Requests, JSON or YAML, replace built-in ones. Keys are names of
	// handlers, with or without the config's name, or names of hooks; the
	// handler's takes precedence. apiVersion and kind may be left out.
	Requests map[string][]byte

	// Hooks limits the hooks that are called to those named, in any case. All
	// when empty. Discovery is always called.
	Hooks []string

	// Catalog has the hooks; catalog.Default when nil.
	Catalog *catalog.Catalog

	// Timeout is the longest that one call may take, even if a handler
	// announces more; what it announces when zero.
	Timeout time.Duration

	// Progress, if set, is called with each result as soon as it is available, never
	// concurrently.
	Progress func(Result)
}

// complete fills in what is left out. The error names every mistake.
func (c Config) complete() (Config, error) {
	c.Name = cmp.Or(c.Name, "extension")
	if c.Catalog == nil {
		c.Catalog = catalog.Default()
	}
	if c.Progress == nil {
		c.Progress = func(Result) {}
	}
	var errs []error
	if u, err := url.Parse(c.URL); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		errs = append(errs, errors.New("the url must be https://host:port/path, without user, query and fragment")) // it may hold a password
	}
	if _, isService := c.service(); c.Address != "" && !isService {
		errs = append(errs, fmt.Errorf("address %q: want a URL of the form https://<name>.<namespace>.svc:port/path with it", c.Address))
	}
	if wrong := validation.IsDNS1123Subdomain(c.Name); len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("name %q: %s", c.Name, wrong[0]))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout %s: want more than zero", c.Timeout))
	}
	for _, name := range c.Hooks {
		if _, err := c.Catalog.Named(name); err != nil {
			errs = append(errs, fmt.Errorf("hooks: %w", err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Requests)) {
		if _, err := parse(c.Requests[name]); err != nil {
			errs = append(errs, fmt.Errorf("request %s: %w", name, err))
		}
	}
	return c, errors.Join(errs...)
}

// service is the Service that the URL names.
func (c Config) service() (transport.Service, bool) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return transport.Service{}, false
	}
	labels := strings.Split(u.Hostname(), ".")
	if len(labels) != 3 || labels[2] != "svc" {
		return transport.Service{}, false
	}
	port, _ := strconv.ParseInt(u.Port(), 10, 32) // url.Parse has verified that it is a number
	return transport.Service{Name: labels[0], Namespace: labels[1], Path: u.Path, Port: int32(port)}, true
}

// wants reports whether the hook may be called.
func (c Config) wants(hook string) bool {
	return len(c.Hooks) == 0 || slices.ContainsFunc(c.Hooks, func(name string) bool {
		d, err := c.Catalog.Named(name)
		return err == nil && strings.EqualFold(d.Hook, hook)
	})
}
