// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/extension/catalog"
)

// Request returns the built-in request of a hook as a JSON object without
// apiVersion and kind. Everything in it is named ClusterName.
func Request(hook catalog.GroupVersionHook) (json.RawMessage, error) {
	all, err := builtins()
	if err != nil {
		return nil, err
	}
	text, ok := all[hook.Hook]
	if !ok {
		return nil, fmt.Errorf("there is no request for %s", hook)
	}
	return text, nil
}
