// SPDX-License-Identifier: Apache-2.0

package sanitize

import "strings"

// exact are names of fields, in lower case.
var exact = map[string]bool{
	"content": true, "passwd": true, "password": true, "token": true, "secret": true,
	"data": true, "stringdata": true, "binarydata": true,
	"bootcommands": true, "prekubeadmcommands": true, "postkubeadmcommands": true, "additionalconfig": true,
	"sshauthorizedkeys": true, "userdata": true, "kubeconfig": true, "args": true, "command": true, "settings": true, "authprovider": true,
}

// parts are parts of such names in objects of providers, unless they name or refer to
// another object.
var parts = []string{"password", "passwd", "token", "secret", "credential", "privatekey", "apikey", "userdata", "kubeconfig"}

// IsSecretField reports whether a field of that name holds a secret.
func IsSecretField(name string) bool {
	name = strings.ToLower(name)
	if exact[name] {
		return true
	}
	for _, end := range []string{"name", "names", "ref", "refs", "created"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	for _, part := range parts {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
