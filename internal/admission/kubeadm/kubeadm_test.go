// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestValidateKubeadmConfig(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateKubeadmConfig, map[string]builder.Validated{
		"empty":                      {Obj: "{}"},
		"files from either source":   {Obj: "spec: {files: [{path: /a, content: x}, {path: /b, contentFrom: {secret: {name: s, key: k}}}, {path: /empty}]}"},
		"a file from both sources":   {Obj: "spec: {files: [{path: /a, content: x, contentFrom: {secret: {name: s, key: k}}}]}", Want: []string{`spec.files[0]: Invalid value: "/a": has both content and contentFrom; leave one of them out`}},
		"a file of half a source":    {Obj: "spec: {files: [{path: /a, contentFrom: {secret: {name: s}}}, {path: /b, contentFrom: {secret: {key: k}}}]}", Want: []string{"spec.files[0].contentFrom.secret.key: Required value: the key in Secret s", "spec.files[1].contentFrom.secret.name: Required value: the Secret that has the key"}},
		"a file that is a template":  {Obj: "spec: {files: [{path: /a, contentFormat: Template, content: 'v={{ .controlPlane.version }}'}]}"},
		"a file that is no template": {Obj: "spec: {files: [{path: /a, contentFormat: Template, content: '{{ .secret'}]}", Want: []string{"spec.files: Invalid value: file /a: its content is not a valid Go template"}},
		"a file twice":               {Obj: "spec: {files: [{path: /a, content: x}, {path: /a, content: y}]}", Want: []string{`spec.files[1].path: Duplicate value: "/a"`}},
		"a user with two passwords":  {Obj: "spec: {users: [{name: u, passwd: x, passwdFrom: {secret: {name: s, key: k}}}]}", Want: []string{`spec.users[0]: Invalid value: "u": has both passwd and passwdFrom; leave one of them out`}},
		"half a password":            {Obj: "spec: {users: [{name: u, passwdFrom: {secret: {name: s}}}]}", Want: []string{"spec.users[0].passwdFrom.secret.key: Required value: the key in Secret s"}},
		"users without password":     {Obj: "spec: {users: [{name: u}]}"},
		"two ways to authenticate":   {Obj: "spec: {joinConfiguration: {discovery: {file: {kubeConfigPath: /k, kubeConfig: {user: {exec: {command: c}, authProvider: {name: a}}}}}}}", Want: []string{`spec.joinConfiguration.discovery.file.kubeConfig.user: Invalid value: "exec and authProvider": leave one of exec and authProvider out`}},
		"one way to authenticate":    {Obj: "spec: {joinConfiguration: {discovery: {file: {kubeConfigPath: /k, kubeConfig: {user: {exec: {command: c}}}}}}}"},
		"more than a disk":           {Obj: "spec: {diskSetup: {partitions: [{device: /dev/sda, diskLayout: [{percentage: 60}, {percentage: 41}]}, {device: /dev/sdb, diskLayout: [{percentage: 100}]}]}}", Want: []string{"spec.diskSetup.partitions[0].diskLayout: Invalid value: 101: the percentages of /dev/sda must not add up to more than 100"}},
		"ignition":                   {Obj: "spec: {format: ignition, ignition: {containerLinuxConfig: {strict: false, additionalConfig: 'systemd: {units: [{name: a.service, enabled: true}]}'}}}"},
		"ignition for cloud-init":    {Obj: "spec: {ignition: {containerLinuxConfig: {strict: false}}}", Want: []string{"spec.ignition: Forbidden: is only for format ignition"}},
		"more than ignition can":     {Obj: "spec: {format: ignition, bootCommands: [a], users: [{name: u, inactive: true}]}", Want: []string{"spec.bootCommands: Forbidden: Ignition runs no commands at each boot: add a unit by ignition.containerLinuxConfig.additionalConfig", "spec.users[0].inactive: Forbidden: Ignition knows no account that cannot be used yet"}},
	})
}

func TestValidateKubeadmConfigTemplate(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateKubeadmConfigTemplate, map[string]builder.Validated{
		"as a config": {Obj: "spec: {template: {spec: {format: ignition, bootCommands: [a]}}}", Want: []string{"spec.template.spec.bootCommands: Forbidden: Ignition runs no commands at each boot: add a unit by ignition.containerLinuxConfig.additionalConfig"}},
		"changed":     {Obj: "spec: {template: {spec: {verbosity: 1}}}", Old: "spec: {template: {spec: {verbosity: 2}}}"},
		"a bad label": {Obj: "spec: {template: {metadata: {labels: {a b: c}}, spec: {verbosity: 1}}}", Want: []string{"spec.template.metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"}},
	})
}

func TestDefaultKubeadmControlPlane(t *testing.T) {
	t.Parallel()
	const held = "metadata: {finalizers: [kubeadm.controlplane.cluster.x-k8s.io]}\n"
	for name, tc := range map[string]struct{ obj, want string }{
		"all that is missing":   {"spec: {version: 1.34.1}", held + "spec: {version: v1.34.1, replicas: 1, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}}"},
		"nothing that is there": {"spec: {replicas: 3, version: v1.34.1, rollout: {strategy: {rollingUpdate: {maxSurge: 0}}}}", held + "spec: {replicas: 3, version: v1.34.1, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := builder.Parse[controlplanev1.KubeadmControlPlane](t, tc.obj)
			DefaultKubeadmControlPlane(got, nil)
			if diff := cmp.Diff(builder.Parse[controlplanev1.KubeadmControlPlane](t, tc.want), got); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}

// controlPlaneWith is a valid control plane and more of its spec.
func controlPlaneWith(more string) string {
	return "spec: {version: v1.34.1, machineTemplate: {spec: {infrastructureRef: {apiGroup: g, kind: K, name: n}}}, " + more + "}"
}

// controlPlaneAt is a valid control plane of a version, with leave to go back to
// another.
func controlPlaneAt(version, allowed string) string {
	return "metadata: {annotations: {capstan.dev/allow-downgrade: '" + allowed + "'}}\n" +
		"spec: {version: " + version + ", replicas: 1, machineTemplate: {spec: {infrastructureRef: {apiGroup: g, kind: K, name: n}}}}"
}

// gated returns a control plane with n readiness gates in its spec.
func gated(n int) string {
	var gates []string
	for i := range n {
		gates = append(gates, fmt.Sprintf("{conditionType: Own%d}", i))
	}
	return "spec: {version: v1.34.1, replicas: 1, machineTemplate: {spec: {infrastructureRef: {apiGroup: g, kind: K, name: n}, readinessGates: [" + strings.Join(gates, ", ") + "]}}}"
}

func configured(config string) string {
	return controlPlaneWith("replicas: 1, kubeadmConfigSpec: " + config)
}

// dns is a control plane with a tag for CoreDNS, and an annotation if there is one.
func dns(annotation, tag string) string {
	meta := ""
	if annotation != "" {
		meta = "metadata: {annotations: {" + annotation + ": ''}}\n"
	}
	return meta + configured("{clusterConfiguration: {dns: {imageTag: "+tag+"}}}")
}

// TestWhatMayChangeIsDecidedOfEveryField requires that a new field of the API is
// added to the list, or named here.
func TestWhatMayChangeIsDecidedOfEveryField(t *testing.T) {
	t.Parallel()
	never := below("kubeadmConfigSpec.clusterConfiguration", "certificatesDir", "controlPlaneEndpoint", "caCertificateValidityPeriodDays")
	decided := append(slices.Clone(mayChange), never...)
	seen := map[string]bool{}
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := strings.TrimPrefix(path+"."+name, ".")
			switch {
			case slices.Contains(decided, at):
				seen[at] = true
			case slices.ContainsFunc(decided, func(d string) bool { return strings.HasPrefix(d, at+".") }):
				walk(at, f.Type)
			default:
				t.Errorf("spec.%s: it is undecided whether it may change", at)
			}
		}
	}
	walk("", reflect.TypeFor[controlplanev1.KubeadmControlPlaneSpec]())
	for _, d := range decided {
		if !seen[d] {
			t.Errorf("spec.%s is decided and does not exist", d)
		}
	}
}

func TestTemplateBombsAreRefused(t *testing.T) {
	t.Parallel()
	kcp, template := builder.Parse[controlplanev1.KubeadmControlPlane](t, controlPlaneWith("replicas: 1")), controlplanev1.KubeadmControlPlaneTemplate{}
	refused := func(name, at string, errs field.ErrorList) {
		t.Helper()
		if len(errs) != 1 || errs[0].Field != at || errs[0].Type != field.ErrorTypeInvalid {
			t.Errorf("%s: got %v, want %s refused", name, errs, at)
		}
	}
	for name, bomb := range builder.TemplateBombs() {
		kcp.Spec.MachineNaming.Template = bomb + "{{ .random }}"
		refused(name, "spec.machineNaming.template", ValidateKubeadmControlPlane(kcp, nil))
		template.Spec.Template.Spec.MachineNaming.Template = bomb + "{{ .random }}"
		refused(name, "spec.template.spec.machineNaming.template", ValidateKubeadmControlPlaneTemplate(&template, nil))

		spec := bootstrapv1.KubeadmConfigSpec{Files: []bootstrapv1.File{{Path: "/a", Content: "a"}, {Path: "/b", ContentFormat: bootstrapv1.FileContentFormatTemplate, Content: bomb}}}
		refused(name, "spec.files", ValidateKubeadmConfig(&bootstrapv1.KubeadmConfig{Spec: spec}, nil))
		of := bootstrapv1.KubeadmConfigTemplate{}
		of.Spec.Template.Spec = spec
		refused(name, "spec.template.spec.files", ValidateKubeadmConfigTemplate(&of, nil))
	}
}

func TestValidateKubeadmControlPlane(t *testing.T) {
	t.Parallel()
	one := controlPlaneWith("replicas: 1")
	builder.CheckValidation(t, ValidateKubeadmControlPlane, map[string]builder.Validated{
		"one":                    {Obj: one},
		"three without surge":    {Obj: controlPlaneWith("replicas: 3, rollout: {before: {certificatesExpiryDays: 30}, strategy: {rollingUpdate: {maxSurge: 0}}}")},
		"none":                   {Obj: controlPlaneWith("replicas: 0"), Want: []string{"spec.replicas: Forbidden: a control plane cannot be scaled to zero; delete the Cluster instead"}},
		"no number":              {Obj: controlPlaneWith(""), Want: []string{"spec.replicas: Required value: how many machines the control plane has, such as 3"}},
		"two":                    {Obj: controlPlaneWith("replicas: 2"), Want: []string{"spec.replicas: Forbidden: 2 is even: etcd on the machines needs an odd number, or use external etcd"}},
		"two with external etcd": {Obj: controlPlaneWith("replicas: 2, kubeadmConfigSpec: {clusterConfiguration: {etcd: {external: {endpoints: [a], caFile: b, certFile: c, keyFile: d}}}}")},
		"an unclosed quote":      {Obj: controlPlaneWith("replicas: 3, rollout: {before: {certificatesExpiryDays: 30}, strategy: {rollingUpdate: {maxSurge: '0\"'}}}")},
		"an unclosed quote, one": {Obj: controlPlaneWith("replicas: 1, rollout: {strategy: {rollingUpdate: {maxSurge: '0\"'}}}"), Want: []string{`spec.rollout.strategy.rollingUpdate.maxSurge: Invalid value: "0\"": must be 1 with 1 replicas: 0 needs at least 3`}},
		"one without surge":      {Obj: controlPlaneWith("replicas: 1, rollout: {strategy: {rollingUpdate: {maxSurge: 0}}}"), Want: []string{`spec.rollout.strategy.rollingUpdate.maxSurge: Invalid value: "0": must be 1 with 1 replicas: 0 needs at least 3`}},
		"too much surge":         {Obj: controlPlaneWith("replicas: 1, rollout: {strategy: {rollingUpdate: {maxSurge: 2}}}"), Want: []string{`spec.rollout.strategy.rollingUpdate.maxSurge: Invalid value: "2": must be 0 or 1`}},
		"half a reference":       {Obj: "spec: {version: v1.34.1, replicas: 1, machineTemplate: {spec: {infrastructureRef: {kind: K, name: n}}}}", Want: []string{"spec.machineTemplate.spec.infrastructureRef.apiGroup: Required value: of the template that machines are made from"}},
		"names that repeat":      {Obj: controlPlaneWith("replicas: 1, machineNaming: {template: '{{ .kubeadmControlPlane.name }}'}"), Want: []string{`spec.machineNaming.template: Invalid value: "{{ .kubeadmControlPlane.name }}": must contain {{ .random }}, so that no two machines have one name`}},
		"names of another kind":  {Obj: controlPlaneWith("replicas: 1, machineNaming: {template: '{{ .machineSet.name }}-{{ .random }}'}"), Want: []string{`spec.machineNaming.template: Invalid value: "{{ .machineSet.name }}-{{ .random }}": can use .cluster.name, .kubeadmControlPlane.name and .random: template: name:1:14: executing "name" at <.machineSet.name>: map has no entry for key "machineSet"`}},
		"etcd twice":             {Obj: configured("{clusterConfiguration: {etcd: {local: {dataDir: /x}, external: {endpoints: [a]}}}}"), Want: []string{"spec.kubeadmConfigSpec.clusterConfiguration.etcd: Forbidden: has both local and external; leave one of them out"}},
		"tags that are none":     {Obj: configured("{clusterConfiguration: {dns: {imageTag: 'v1:2'}, etcd: {local: {imageTag: 3.5.0-0}}}}"), Want: []string{`spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Invalid value: "v1:2": must be the tag of an image, such as v1.12.0`}},
		"certificates that outlive their authority": {Obj: configured("{clusterConfiguration: {certificateValidityPeriodDays: 100, caCertificateValidityPeriodDays: 99}}"), Want: []string{"spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays: Invalid value: 100: must not be more than the 99 days that the certificate authority is valid"}},
		"rolling out all the time":                  {Obj: controlPlaneWith("replicas: 1, rollout: {before: {certificatesExpiryDays: 30}}, kubeadmConfigSpec: {clusterConfiguration: {certificateValidityPeriodDays: 30}}"), Want: []string{"spec.rollout.before.certificatesExpiryDays: Invalid value: 30: must be less than the 30 days that certificates are valid"}},
		"two health checks":                         {Obj: configured("{initConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 1}}, joinConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 2}}}"), Want: []string{"spec.kubeadmConfigSpec.joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds: Invalid value: 2: must be the same in initConfiguration and joinConfiguration"}},
		"a bad machine config":                      {Obj: configured("{format: ignition, bootCommands: [a]}"), Want: []string{"spec.kubeadmConfigSpec.bootCommands: Forbidden: Ignition runs no commands at each boot: add a unit by ignition.containerLinuxConfig.additionalConfig"}},

		"as many gates as fit":          {Obj: gated(26)},
		"more gates than fit":           {Obj: gated(32), Want: []string{"spec.machineTemplate.spec.readinessGates: Invalid value: 32: must have at most 26 items: a Machine has at most 32 readiness gates, of which the components of a control plane need the others"}},
		"more gates, as it was already": {Obj: gated(32), Old: gated(32)},

		"one minor version up":   {Obj: one, Old: "spec: {version: v1.33.9}"},
		"two minor versions up":  {Obj: one, Old: "spec: {version: v1.32.9}", Want: []string{"spec.version: Forbidden: cannot go from v1.32.9 to v1.34.1: upgrade one minor version at a time"}},
		"down":                   {Obj: one, Old: "spec: {version: v1.36.0}", Want: []string{"spec.version: Forbidden: cannot go back from v1.36.0 to v1.34.1, which may not read what the newer one has stored: if it must be, set the annotation capstan.dev/allow-downgrade: v1.34.1"}},
		"a patch version down":   {Obj: one, Old: "spec: {version: v1.34.2}", Want: []string{"spec.version: Forbidden: cannot go back from v1.34.2 to v1.34.1, which may not read what the newer one has stored: if it must be, set the annotation capstan.dev/allow-downgrade: v1.34.1"}},
		"back to a pre-release":  {Obj: controlPlaneAt("v1.34.1-rc.0", ""), Old: "spec: {version: v1.34.1}", Want: []string{"spec.version: Forbidden: cannot go back from v1.34.1 to v1.34.1-rc.0, which may not read what the newer one has stored: if it must be, set the annotation capstan.dev/allow-downgrade: v1.34.1-rc.0"}},
		"another build":          {Obj: controlPlaneAt("v1.34.1+a", ""), Old: "spec: {version: v1.34.1+b}"},
		"down as asked for":      {Obj: controlPlaneAt("v1.34.1", "v1.34.1"), Old: "spec: {version: v1.36.0}"},
		"asked for without a v":  {Obj: controlPlaneAt("v1.34.1", "1.34.1"), Old: "spec: {version: v1.36.0}"},
		"further than asked for": {Obj: controlPlaneAt("v1.33.1", "v1.34.1"), Old: "spec: {version: v1.36.0}", Want: []string{"spec.version: Forbidden: cannot go back from v1.36.0 to v1.33.1, which may not read what the newer one has stored: if it must be, set the annotation capstan.dev/allow-downgrade: v1.33.1"}},
		"a mere yes":             {Obj: controlPlaneAt("v1.34.1", "yes"), Old: "spec: {version: v1.34.2}", Want: []string{"spec.version: Forbidden: cannot go back from v1.34.2 to v1.34.1, which may not read what the newer one has stored: if it must be, set the annotation capstan.dev/allow-downgrade: v1.34.1"}},
		"what is stored is bad":  {Obj: one, Old: "spec: {version: latest}"},
		"another major version":  {Obj: one, Old: "spec: {version: v0.34.0}", Want: []string{"spec.version: Forbidden: cannot go from v0.34.0 to v1.34.1: upgrade one minor version at a time"}},
		"what can change":        {Obj: configured("{verbosity: 4, clusterConfiguration: {featureGates: {A: true}, certificateValidityPeriodDays: 100, etcd: {local: {imageTag: x}}}}"), Old: "spec: {version: v1.34.1}"},
		"what cannot change": {Obj: configured("{clusterConfiguration: {certificatesDir: /b, controlPlaneEndpoint: h, caCertificateValidityPeriodDays: 4000}}"), Old: "spec: {version: v1.34.1, kubeadmConfigSpec: {clusterConfiguration: {certificatesDir: /a}}}", Want: []string{
			"spec.kubeadmConfigSpec.clusterConfiguration.caCertificateValidityPeriodDays: Forbidden: cannot change: what runs was made with it; create another Cluster instead",
			"spec.kubeadmConfigSpec.clusterConfiguration.certificatesDir: Forbidden: cannot change: what runs was made with it; create another Cluster instead",
			"spec.kubeadmConfigSpec.clusterConfiguration.controlPlaneEndpoint: Forbidden: cannot change: what runs was made with it; create another Cluster instead"}},
		"what cannot be left out": {Obj: one, Old: "spec: {version: v1.34.1, kubeadmConfigSpec: {verbosity: 3, clusterConfiguration: {certificatesDir: /a, imageRepository: x}}}", Want: []string{
			"spec.kubeadmConfigSpec.clusterConfiguration.certificatesDir: Forbidden: cannot change: what runs was made with it; create another Cluster instead"}},
		"a later CoreDNS":                 {Obj: dns("", "v1.12.0"), Old: dns("", "v1.11.1_vendor.2")},
		"an earlier CoreDNS":              {Obj: dns("", "v1.11.1"), Old: dns("", "v1.12.0"), Want: []string{"spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Forbidden: cannot migrate up to '1.11.1' from '1.12.0': choose a later version that is known, or look after CoreDNS yourself with the annotation controlplane.cluster.x-k8s.io/skip-coredns"}},
		"a CoreDNS that is unknown":       {Obj: dns("", "v9.0.0"), Old: dns("", "v1.12.0"), Want: []string{"spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Forbidden: cannot migrate up to '9.0.0' from '1.12.0': choose a later version that is known, or look after CoreDNS yourself with the annotation controlplane.cluster.x-k8s.io/skip-coredns"}},
		"a CoreDNS without version":       {Obj: dns("", "latest"), Old: dns("", "v1.12.0"), Want: []string{`spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Invalid value: "latest": must begin with a version, such as v1.12.0`}},
		"a new one without version":       {Obj: dns("", "1-7"), Want: []string{`spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Invalid value: "1-7": must begin with a version, such as v1.12.0`}},
		"one without version, first":      {Obj: dns("", "1-7"), Old: "spec: {version: v1.34.1}", Want: []string{`spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Invalid value: "1-7": must begin with a version, such as v1.12.0`}},
		"a stored one that stays":         {Obj: dns("", "1-7"), Old: dns("", "1-7")},
		"a short version":                 {Obj: dns("", "v1.12")},
		"another build of an unknown one": {Obj: dns("", "v9.0.0_b"), Old: dns("", "v9.0.0_a")},
		"another build of it":             {Obj: dns("", "v1.12.0_b"), Old: dns("", "v1.12.0_a")},
		"CoreDNS of one's own":            {Obj: dns("controlplane.cluster.x-k8s.io/skip-coredns", "latest"), Old: dns("", "v1.12.0")},
		"CoreDNS for the first time":      {Obj: dns("", "v1.11.1"), Old: "spec: {version: v1.34.1}"},
		"a stored tag that is none":       {Obj: dns("", "v1.11.1"), Old: dns("", "latest")},
		"from local to external":          {Obj: configured("{clusterConfiguration: {etcd: {external: {endpoints: [a]}}}}"), Old: "spec: {version: v1.34.1}", Want: []string{"spec.kubeadmConfigSpec.clusterConfiguration.etcd: Forbidden: cannot change between local and external; create another Cluster instead"}},
	})
}

func TestValidateKubeadmControlPlaneTemplate(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateKubeadmControlPlaneTemplate, map[string]builder.Validated{
		"new":                     {Obj: "spec: {template: {spec: {kubeadmConfigSpec: {verbosity: 1}}}}"},
		"bad":                     {Obj: "spec: {template: {spec: {kubeadmConfigSpec: {format: ignition, bootCommands: [a]}}}}", Want: []string{"spec.template.spec.kubeadmConfigSpec.bootCommands: Forbidden: Ignition runs no commands at each boot: add a unit by ignition.containerLinuxConfig.additionalConfig"}},
		"CoreDNS without version": {Obj: "spec: {template: {spec: {kubeadmConfigSpec: {clusterConfiguration: {dns: {imageTag: 1-7}}}}}}", Want: []string{`spec.template.spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: Invalid value: "1-7": must begin with a version, such as v1.12.0`}},
		"CoreDNS of one's own":    {Obj: "spec: {template: {metadata: {annotations: {controlplane.cluster.x-k8s.io/skip-coredns: ''}}, spec: {kubeadmConfigSpec: {clusterConfiguration: {dns: {imageTag: latest}}}}}}"},
		"changed":                 {Obj: "spec: {template: {spec: {kubeadmConfigSpec: {verbosity: 1}}}}", Old: "{}", Want: []string{"spec.template.spec: Forbidden: cannot change; create another template and refer to that one"}},
		"same":                    {Obj: "spec: {template: {metadata: {labels: {a: b}}, spec: {kubeadmConfigSpec: {verbosity: 1}}}}", Old: "spec: {template: {spec: {kubeadmConfigSpec: {verbosity: 1}}}}"},
		"without the defaults that upstream wrote": {Obj: "spec: {template: {spec: {kubeadmConfigSpec: {verbosity: 1}}}}",
			Old: "spec: {template: {spec: {rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}}, kubeadmConfigSpec: {verbosity: 1, format: cloud-config, initConfiguration: {nodeRegistration: {imagePullPolicy: IfNotPresent}}, joinConfiguration: {nodeRegistration: {imagePullPolicy: IfNotPresent}}}}}}"},
		"in the form that v1beta1 gives it": {Obj: "spec: {template: {spec: {kubeadmConfigSpec: {files: [{path: /x}], clusterConfiguration: {scheduler: {extraArgs: [{name: a, value: b}, {name: v, value: c}]}}}}}}",
			Old: "spec: {template: {spec: {remediation: {retryPeriodSeconds: 0}, kubeadmConfigSpec: {files: [{path: /x, append: false}], clusterConfiguration: {scheduler: {extraArgs: [{name: v, value: c}, {name: a, value: b}]}}}}}}"},
		"without what the user wrote": {Obj: "spec: {template: {spec: {kubeadmConfigSpec: {verbosity: 1}}}}", Old: "spec: {template: {spec: {rollout: {strategy: {rollingUpdate: {maxSurge: 0}}}, kubeadmConfigSpec: {verbosity: 1}}}}",
			Want: []string{"spec.template.spec: Forbidden: cannot change; create another template and refer to that one"}},
		"with a bad label of machines": {Obj: "spec: {template: {spec: {machineTemplate: {metadata: {labels: {a: b c}}}}}}",
			Want: []string{`spec.template.spec.machineTemplate.metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
	})
}

// TestScaleIsHeldToTheControlPlane calls the webhook of the subresource as an
// API server does.
func TestScaleIsHeldToTheControlPlane(t *testing.T) {
	t.Parallel()
	local := builder.Parse[controlplanev1.KubeadmControlPlane](t, "{metadata: {namespace: ns, name: local}, spec: {version: v1.34.1}}")
	external := builder.Parse[controlplanev1.KubeadmControlPlane](t, "{metadata: {namespace: ns, name: external}, spec: {version: v1.34.1, kubeadmConfigSpec: {clusterConfiguration: {etcd: {external: {endpoints: [a]}}}}}}")
	bounded := builder.Parse[controlplanev1.KubeadmControlPlane](t, "{metadata: {namespace: ns, name: bounded}, spec: {version: v1.34.1, rollout: {strategy: {rollingUpdate: {maxSurge: 0}}}}}")
	scheme := runtime.NewScheme()
	if err := controlplanev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hooks := Webhooks(fake.NewClientBuilder().WithScheme(scheme).WithObjects(local, external, bounded).Build())
	scale := hooks[len(hooks)-1]
	for name, tc := range map[string]struct {
		of       string
		replicas string
		want     bool
	}{
		"to three":                  {"local", "3", true},
		"to two":                    {"local", "2", false},
		"to zero":                   {"local", "0", false},
		"to two with external etcd": {"external", "2", true},
		"to one without surge":      {"bounded", "1", false},
		"to three without surge":    {"bounded", "3", true},
		"of what is not there":      {"gone", "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := &admissionv1.AdmissionRequest{Namespace: "ns", Name: tc.of}
			req.Object.Raw = []byte(`{"kind": "Scale", "spec": {"replicas": ` + tc.replicas + `}}`)
			req.OldObject.Raw = []byte(`{"kind": "Scale", "spec": {"replicas": 1}}`)
			if got := scale.Admit(t.Context(), req); got.Allowed != tc.want {
				t.Errorf("allowed %v, want %v: %v", got.Allowed, tc.want, got.Result)
			}
		})
	}
}

// TestFieldsThatMayChangeExist: a misspelled path would fix its field forever.
func TestFieldsThatMayChangeExist(t *testing.T) {
	t.Parallel()
	for _, path := range mayChange {
		of := reflect.TypeFor[controlplanev1.KubeadmControlPlaneSpec]()
		for name := range strings.SplitSeq(path, ".") {
			var next reflect.Type
			for f := range of.Fields() {
				if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
					next = f.Type
				}
			}
			if of = next; of == nil {
				t.Errorf("%s: no field %s", path, name)
				break
			}
		}
	}
}

// TestFixedNamesTheDeepestFields walks two specs as they are in JSON.
func TestFixedNamesTheDeepestFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		was, is string
		want    []string
	}{
		"nothing":                       {"{}", "{}", nil},
		"what may change":               {"{replicas: 1, kubeadmConfigSpec: {verbosity: 1, clusterConfiguration: {dns: {imageTag: a}}}}", "{replicas: 3, kubeadmConfigSpec: {clusterConfiguration: {dns: {imageTag: b}, scheduler: {extraArgs: []}}}}", nil},
		"all of what may change goes":   {"{kubeadmConfigSpec: {initConfiguration: {skipPhases: [a], patches: {directory: /a}}}}", "{}", nil},
		"a field that is fixed":         {"{kubeadmConfigSpec: {clusterConfiguration: {certificatesDir: /a}}}", "{kubeadmConfigSpec: {clusterConfiguration: {certificatesDir: /b}}}", []string{"kubeadmConfigSpec.clusterConfiguration.certificatesDir"}},
		"a fixed field with its parent": {"{}", "{kubeadmConfigSpec: {clusterConfiguration: {certificatesDir: /b, imageRepository: x}}}", []string{"kubeadmConfigSpec.clusterConfiguration.certificatesDir"}},
		"several, in order":             {"{b: 1, a: {c: 1}}", "{b: 2, a: {c: 2}}", []string{"a", "b"}},
		"a field of a later version":    {"{}", "{kubeadmConfigSpec: {later: {a: 1}}}", []string{"kubeadmConfigSpec.later"}},
		"a name that starts like one":   {"{replicasMore: 1}", "{}", []string{"replicasMore"}},
	} {
		was, is := *builder.Parse[map[string]any](t, tc.was), *builder.Parse[map[string]any](t, tc.is)
		if diff := cmp.Diff(tc.want, fixed("", was, is)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
