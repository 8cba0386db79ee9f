// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"
	"strconv"
	"strings"

	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// parseService reads namespace/name[:port][/path].
func parseService(text string) (runtimev1.ServiceReference, error) {
	var ref runtimev1.ServiceReference
	bad := func(why string) (runtimev1.ServiceReference, error) {
		return ref, fmt.Errorf("--service %q: %s: it is namespace/name[:port][/path]", text, why)
	}
	namespace, rest, ok := strings.Cut(text, "/")
	if !ok || namespace == "" {
		return bad("the namespace is missing")
	}
	name, path, hasPath := strings.Cut(rest, "/")
	name, port, hasPort := strings.Cut(name, ":")
	if name == "" {
		return bad("the name is missing")
	}
	ref.Namespace, ref.Name, ref.Port = namespace, name, new(int32(443))
	if hasPath {
		ref.Path = "/" + path
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return bad("port " + strconv.Quote(port) + " is no number from 1 to 65535")
		}
		ref.Port = new(int32(n))
	}
	return ref, nil
}

// hookText is a hook as people read it: its name and its version.
func hookText(h runtimev1.GroupVersionHook) string {
	_, version, _ := strings.Cut(h.APIVersion, "/")
	return h.Hook + "/" + version
}

// deprecation describes the deprecation of the version of a handler's hook; empty
// for one that stays.
func deprecation(h runtimev1.ExtensionHandler) string {
	return strings.Join(extensionconfig.Deprecated(catalog.Default(), []runtimev1.ExtensionHandler{h}), "")
}
