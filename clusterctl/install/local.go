// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
)

const localProvider = "local"

var localGroup = infrav1.GroupVersion().Group

// localRules are the permissions of a provider on the kinds of the local provider,
// whose group the ClusterRoles of other releases do not name; none for a type that
// needs none.
func localRules(t clusterctlv1.ProviderType) []rbacv1.PolicyRule {
	read := []rbacv1.PolicyRule{{APIGroups: []string{localGroup}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}
	switch t {
	case clusterctlv1.AddonProviderType, clusterctlv1.BootstrapProviderType:
		return read
	case clusterctlv1.ControlPlaneProviderType:
		return append(read, rbacv1.PolicyRule{
			APIGroups: []string{localGroup}, Resources: []string{"localmachines", "localmachinetemplates"},
			Verbs: []string{"create", "update", "patch", "delete"},
		})
	}
	return nil
}

// BindLocal adds a role for the kinds of the local provider to a release, if that
// provider is installed, and names to progress the ServiceAccounts that get it.
func BindLocal(r Release, installed inventory.Providers, progress func(string)) error {
	rules := localRules(r.Provider.Type)
	if len(rules) == 0 || len(installed.Named(localProvider, clusterctlv1.InfrastructureProviderType)) == 0 {
		return nil
	}
	accounts, err := r.Grant("capstan-local", rules)
	if err != nil || len(accounts) == 0 {
		return err
	}
	may := "read " + localGroup
	if len(rules) > 1 {
		may += " and write " + strings.Join(rules[1].Resources, " and ") + " there"
	}
	progress(fmt.Sprintf("ServiceAccounts of %s may %s: %s", r.Label(), may, strings.Join(accounts, ", ")))
	return nil
}
