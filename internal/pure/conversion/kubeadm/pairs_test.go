// SPDX-License-Identifier: Apache-2.0

package kubeadm_test

import (
	"strings"
	"testing"

	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
	"github.com/capstan-dev/capstan/internal/pure/conversion/kubeadm"
)

func TestConversionsAcceptAnyObject(t *testing.T) {
	t.Parallel()
	conversiontests.BareObjects(t, kubeadm.Kinds())
	conversiontests.OldSourceStays(t, kubeadm.Kinds())
}

// noted is the part of a status that the hub of a config always has.
const noted = "status: {deprecated: {v1beta1: {}}}\n"

func TestConfigIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	configs := kindOf(t, bootstrapv1.GroupVersion().WithKind("KubeadmConfig"))
	conversiontests.Both(t, configs, map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: noted},
		"commands and a format": {
			From: "spec: {bootCommands: [a], preKubeadmCommands: [], postKubeadmCommands: ['b; c'], format: ignition, verbosity: 0, mounts: [[a, /a], []]}",
			Want: noted + "spec: {bootCommands: [a], preKubeadmCommands: [], postKubeadmCommands: ['b; c'], format: ignition, verbosity: 0, mounts: [[a, /a], []]}",
		},
		"files": {
			From: `
spec:
  files:
  - {path: /a, owner: "root:root", permissions: "0600", encoding: base64, append: true, content: YQ==, contentFormat: Template}
  - {path: /b, contentFrom: {secret: {name: s, key: k}}}`,
			Want: noted + `
spec:
  files:
  - {path: /a, owner: "root:root", permissions: "0600", encoding: base64, append: true, content: YQ==, contentFormat: Template}
  - {path: /b, contentFrom: {secret: {name: s, key: k}}}`,
		},
		"users": {
			From: `
spec:
  users:
  - {name: a, gecos: G, groups: "x, y", homeDir: /h, inactive: false, shell: /s, passwd: p, primaryGroup: g, lockPassword: true, sudo: ALL, sshAuthorizedKeys: []}
  - {name: b, passwdFrom: {secret: {name: s, key: k}}}`,
			Want: noted + `
spec:
  users:
  - {name: a, gecos: G, groups: "x, y", homeDir: /h, inactive: false, shell: /s, passwd: p, primaryGroup: g, lockPassword: true, sudo: ALL, sshAuthorizedKeys: []}
  - {name: b, passwdFrom: {secret: {name: s, key: k}}}`,
		},
		"disks": {
			From: `
spec:
  diskSetup:
    partitions: [{device: /dev/a, layout: true, overwrite: false, tableType: gpt}, {device: /dev/b, layout: false}, {device: /dev/c, layout: false, diskLayout: [{percentage: 100, partitionType: Linux}]}]
    filesystems: [{device: /dev/a, filesystem: ext4, label: l, partition: auto, overwrite: true, replaceFS: ntfs, extraOpts: [-F]}]`,
			Want: noted + `
spec:
  diskSetup:
    partitions: [{device: /dev/a, layout: true, overwrite: false, tableType: gpt}, {device: /dev/b, layout: false}, {device: /dev/c, diskLayout: [{percentage: 100, partitionType: Linux}]}]
    filesystems: [{device: /dev/a, filesystem: ext4, label: l, partition: auto, overwrite: true, replaceFS: ntfs, extraOpts: [-F]}]`,
		},
		"time servers, and none": {From: "spec: {ntp: {servers: [], enabled: false}}", Want: noted + "spec: {ntp: {servers: [], enabled: false}}"},
		"a Container Linux Config": {
			From: "spec: {ignition: {containerLinuxConfig: {additionalConfig: a, strict: true}}}",
			Want: noted + "spec: {ignition: {containerLinuxConfig: {additionalConfig: a, strict: true}}}",
		},
	})
}

func TestConfigOfKubeadmIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	configs := kindOf(t, bootstrapv1.GroupVersion().WithKind("KubeadmConfig"))
	conversiontests.Both(t, configs, map[string]conversiontests.Case{
		"a cluster": {
			From: `
spec:
  clusterConfiguration:
    controlPlaneEndpoint: "h:6443"
    apiServer:
      extraArgs: {b: "2", a: ""}
      extraVolumes: [{name: v, hostPath: /h, mountPath: /m, readOnly: true, pathType: File}]
      extraEnvs: [{name: A, value: b}]
      certSANs: [x]
      timeoutForControlPlane: 4m0s
    controllerManager: {extraArgs: {}}
    scheduler: {extraEnvs: []}
    etcd: {local: {imageRepository: r, imageTag: t, dataDir: /d, extraArgs: {a: b}, serverCertSANs: [s], peerCertSANs: []}}
    dns: {imageRepository: d, imageTag: v1}
    certificatesDir: /c
    imageRepository: i
    featureGates: {A: false}
    certificateValidityPeriodDays: 1
    caCertificateValidityPeriodDays: 2
    encryptionAlgorithm: RSA-4096`,
			Want: noted + `
spec:
  initConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 240}}
  joinConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 240}}
  clusterConfiguration:
    controlPlaneEndpoint: "h:6443"
    apiServer:
      extraArgs: [{name: a, value: ""}, {name: b, value: "2"}]
      extraVolumes: [{name: v, hostPath: /h, mountPath: /m, readOnly: true, pathType: File}]
      extraEnvs: [{name: A, value: b}]
      certSANs: [x]
    controllerManager: {extraArgs: []}
    scheduler: {extraEnvs: []}
    etcd: {local: {imageRepository: r, imageTag: t, dataDir: /d, extraArgs: [{name: a, value: b}], serverCertSANs: [s], peerCertSANs: []}}
    dns: {imageRepository: d, imageTag: v1}
    certificatesDir: /c
    imageRepository: i
    featureGates: {A: false}
    certificateValidityPeriodDays: 1
    caCertificateValidityPeriodDays: 2
    encryptionAlgorithm: RSA-4096`,
		},
		"an external etcd": {
			From: "spec: {clusterConfiguration: {etcd: {external: {endpoints: [a], caFile: c, certFile: d, keyFile: k}}}}",
			Want: noted + "spec: {clusterConfiguration: {etcd: {external: {endpoints: [a], caFile: c, certFile: d, keyFile: k}}}}",
		},
		"a first machine": {
			From: `
spec:
  initConfiguration:
    bootstrapTokens: [{token: abcdef.0123456789abcdef, ttl: 0s, expires: "2026-01-02T03:04:05Z", usages: [signing], groups: []}, {token: null}]
    nodeRegistration: {name: o, criSocket: s, taints: [], kubeletExtraArgs: {v: "4"}, ignorePreflightErrors: [all], imagePullPolicy: Never, imagePullSerial: false}
    localAPIEndpoint: {advertiseAddress: fd00::1, bindPort: 6443}
    skipPhases: [a]
    patches: {directory: /p}`,
			Want: noted + `
spec:
  initConfiguration:
    bootstrapTokens: [{token: abcdef.0123456789abcdef, ttlSeconds: 0, expires: "2026-01-02T03:04:05Z", usages: [signing], groups: []}, {}]
    nodeRegistration: {name: o, criSocket: s, taints: [], kubeletExtraArgs: [{name: v, value: "4"}], ignorePreflightErrors: [all], imagePullPolicy: Never, imagePullSerial: false}
    localAPIEndpoint: {advertiseAddress: fd00::1, bindPort: 6443}
    skipPhases: [a]
    patches: {directory: /p}`,
		},
		"a machine that joins by a token": {
			From: `
spec:
  joinConfiguration:
    caCertPath: /ca
    controlPlane: {localAPIEndpoint: {}}
    discovery:
      tlsBootstrapToken: t
      timeout: 5m0s
      bootstrapToken: {token: b, apiServerEndpoint: e, caCertHashes: [h], unsafeSkipCAVerification: true}`,
			Want: noted + `
spec:
  joinConfiguration:
    caCertPath: /ca
    controlPlane: {localAPIEndpoint: {}}
    timeouts: {tlsBootstrapSeconds: 300}
    discovery:
      tlsBootstrapToken: t
      bootstrapToken: {token: b, apiServerEndpoint: e, caCertHashes: [h], unsafeSkipCAVerification: true}`,
		},
		"a machine that joins by a file": {
			From: `
spec:
  joinConfiguration:
    discovery:
      file:
        kubeConfigPath: /k
        kubeConfig:
          cluster: {server: s, tlsServerName: t, insecureSkipTLSVerify: true, certificateAuthorityData: c29tZQ==, proxyURL: p}
          user:
            authProvider: {name: a, config: {k: v}}
            exec: {command: c, args: [], env: [{name: A, value: ""}], apiVersion: v1, provideClusterInfo: true}`,
			Want: noted + `
spec:
  joinConfiguration:
    discovery:
      file:
        kubeConfigPath: /k
        kubeConfig:
          cluster: {server: s, tlsServerName: t, insecureSkipTLSVerify: true, certificateAuthorityData: c29tZQ==, proxyURL: p}
          user:
            authProvider: {name: a, config: {k: v}}
            exec: {command: c, args: [], env: [{name: A, value: ""}], apiVersion: v1, provideClusterInfo: true}`,
		},
		"a status": {
			From: `
status:
  ready: true
  dataSecretName: d
  observedGeneration: 2
  failureReason: R
  failureMessage: m
  conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]
  v1beta2: {conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`,
			Want: `
status:
  initialization: {dataSecretCreated: true}
  dataSecretName: d
  observedGeneration: 2
  conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  deprecated: {v1beta1: {failureReason: R, failureMessage: m, conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}`,
		},
	})
}

// TestConfigUpRestoresFromAnnotation: timeouts of which v1beta1 has none, and a false that
// was one. What v1beta1 has counts.
func TestConfigUpRestoresFromAnnotation(t *testing.T) {
	t.Parallel()
	configs := kindOf(t, bootstrapv1.GroupVersion().WithKind("KubeadmConfig"))
	conversiontests.Up(t, configs, map[string]conversiontests.Case{
		"timeouts that v1beta1 lacks": {
			From: "{}", Kept: "spec: {initConfiguration: {timeouts: {etcdAPICallSeconds: 0}}, joinConfiguration: {timeouts: {discoverySeconds: 7, tlsBootstrapSeconds: 8}}}",
			Want: noted + "spec: {initConfiguration: {timeouts: {etcdAPICallSeconds: 0}}, joinConfiguration: {timeouts: {discoverySeconds: 7, tlsBootstrapSeconds: 8}}}",
		},
		"timeouts that it has": {
			From: "spec: {clusterConfiguration: {apiServer: {timeoutForControlPlane: 2s}}, joinConfiguration: {discovery: {timeout: 3s}}}",
			Kept: "spec: {initConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 9, kubeletHealthCheckSeconds: 1}}, joinConfiguration: {timeouts: {tlsBootstrapSeconds: 9}}}",
			Want: noted + "spec: {initConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 2, kubeletHealthCheckSeconds: 1}}, joinConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 2, tlsBootstrapSeconds: 3}}}",
		},
		"a check of joining machines alone": {
			From: "spec: {joinConfiguration: {discovery: {timeout: 3s}}}", Kept: "spec: {joinConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 5}}}",
			Want: noted + "spec: {joinConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: 5, tlsBootstrapSeconds: 3}}}",
		},
		"a false of a file by its path": {
			From: "spec: {files: [{path: /b}, {path: /a}]}", Kept: "spec: {files: [{path: /a, append: false}, {path: /c, append: false}]}",
			Want: noted + "spec: {files: [{path: /b}, {path: /a, append: false}]}",
		},
		"of two files of one path by its place": {
			From: "spec: {files: [{path: /a}, {path: /a}]}", Kept: "spec: {files: [{path: /a, append: true}, {path: /a, append: false}]}",
			Want: noted + "spec: {files: [{path: /a}, {path: /a, append: false}]}",
		},
		"a false of a volume": {
			From: "spec: {clusterConfiguration: {scheduler: {extraVolumes: [{name: o, hostPath: /h, mountPath: /m}]}}}", Kept: "spec: {clusterConfiguration: {scheduler: {extraVolumes: [{name: old, hostPath: /h, mountPath: /m, readOnly: false}]}}}",
			Want: noted + "spec: {clusterConfiguration: {scheduler: {extraVolumes: [{name: o, hostPath: /h, mountPath: /m, readOnly: false}]}}}",
		},
		"a false of discovery": {
			From: "spec: {ignition: {containerLinuxConfig: {}}, joinConfiguration: {discovery: {bootstrapToken: {token: t}, file: {kubeConfigPath: /k, kubeConfig: {cluster: {server: s}, user: {exec: {command: c}}}}}}}",
			Kept: "spec: {ignition: {containerLinuxConfig: {strict: false}}, joinConfiguration: {discovery: {bootstrapToken: {unsafeSkipCAVerification: false}, file: {kubeConfig: {cluster: {insecureSkipTLSVerify: false}, user: {exec: {provideClusterInfo: false}}}}}}}",
			Want: noted + "spec: {ignition: {containerLinuxConfig: {strict: false}}, joinConfiguration: {discovery: {bootstrapToken: {token: t, unsafeSkipCAVerification: false}, file: {kubeConfigPath: /k, kubeConfig: {cluster: {server: s, insecureSkipTLSVerify: false}, user: {exec: {command: c, provideClusterInfo: false}}}}}}}",
		},
		"not ready, and it was false": {From: "status: {ready: false}", Kept: "status: {initialization: {dataSecretCreated: false}}", Want: "status: {initialization: {dataSecretCreated: false}, deprecated: {v1beta1: {}}}"},
		"fields that the hub lacks": {
			From: "spec: {useExperimentalRetryJoin: true, clusterConfiguration: {clusterName: c, kubernetesVersion: v1, networking: {podSubnet: p}, apiVersion: x, kind: z}, initConfiguration: {apiVersion: x, kind: z}}",
			Want: noted,
		},
		"empty texts and lists": {
			From: `{spec: {users: [{name: a, gecos: "", sudo: ""}], diskSetup: {partitions: [{device: d, layout: false, tableType: ""}]}, initConfiguration: {bootstrapTokens: [{token: ""}]}, clusterConfiguration: {apiServer: {extraVolumes: []}}}, status: {dataSecretName: ""}}`,
			Want: noted + `spec: {users: [{name: a}], diskSetup: {partitions: [{device: d, layout: false}]}, initConfiguration: {bootstrapTokens: [{token: ""}]}}`,
		},
		"a part of a second": {From: "spec: {clusterConfiguration: {apiServer: {timeoutForControlPlane: -1.5s}}}", Want: noted + "spec: {initConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: -1}}, joinConfiguration: {timeouts: {controlPlaneComponentHealthCheckSeconds: -1}}}"},
	})
	conversiontests.Down(t, configs, map[string]conversiontests.Case{
		"the last of two arguments":   {From: "spec: {clusterConfiguration: {apiServer: {extraArgs: [{name: a, value: x}, {name: a, value: z}, {name: b}]}}}", Want: "spec: {clusterConfiguration: {apiServer: {extraArgs: {a: z, b: ''}}}}"},
		"timeouts that v1beta1 lacks": {From: "spec: {initConfiguration: {timeouts: {kubernetesAPICallSeconds: 1}}, joinConfiguration: {timeouts: {discoverySeconds: 1}}}", Want: "{}"},
	})
}

func TestConfigUpNamesMalformedToken(t *testing.T) {
	t.Parallel()
	configs := kindOf(t, bootstrapv1.GroupVersion().WithKind("KubeadmConfig"))
	old := configs.NewOld().(*bootstrapv1beta1.KubeadmConfig)
	old.Namespace, old.Name = "ns", "a"
	old.Spec.InitConfiguration = &bootstrapv1beta1.InitConfiguration{BootstrapTokens: []bootstrapv1beta1.BootstrapToken{{Token: new("abcdef.0123456789abcdef")}, {Token: new("hunter2")}}}
	_, err := configs.Up(old)
	if want := "convert KubeadmConfig ns/a to bootstrap.cluster.x-k8s.io/v1beta2: initConfiguration.bootstrapTokens: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestControlPlaneIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	planes := kindOf(t, controlplanev1.GroupVersion().WithKind("KubeadmControlPlane"))
	const counted = "status: {replicas: 0, deprecated: {v1beta1: {}}}\n"
	conversiontests.Both(t, planes, map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: counted},
		"a spec": {
			From: `
spec:
  replicas: 0
  version: v1.36.0
  machineTemplate:
    metadata: {labels: {a: b}}
    infrastructureRef: {apiVersion: infra.io/v1beta2, kind: HostTemplate, name: h, namespace: ns}
    readinessGates: []
    nodeDrainTimeout: 0s
    taints: [{key: k, effect: NoSchedule, propagation: Always}]
  rolloutBefore: {certificatesExpiryDays: 21}
  rolloutAfter: "2026-01-02T03:04:05Z"
  rolloutStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}
  remediationStrategy: {maxRetry: 0, retryPeriod: 1m0s, minHealthyPeriod: 1h0m0s}
  machineNamingStrategy: {template: t}
  kubeadmConfigSpec: {verbosity: 1}`,
			Want: counted + `
spec:
  replicas: 0
  version: v1.36.0
  machineTemplate:
    metadata: {labels: {a: b}}
    spec:
      infrastructureRef: {apiGroup: infra.io, kind: HostTemplate, name: h}
      readinessGates: []
      deletion: {nodeDrainTimeoutSeconds: 0}
      taints: [{key: k, effect: NoSchedule, propagation: Always}]
  rollout:
    before: {certificatesExpiryDays: 21}
    after: "2026-01-02T03:04:05Z"
    strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0}}
  remediation: {maxRetry: 0, retryPeriodSeconds: 60, minHealthyPeriodSeconds: 3600}
  machineNaming: {template: t}
  kubeadmConfigSpec: {verbosity: 1}`,
		},
		"a status": {
			From: `
status:
  selector: a=b
  replicas: 3
  version: v1.36.0
  versions: [{version: v1.36.0, replicas: 3}]
  updatedReplicas: 2
  readyReplicas: 1
  unavailableReplicas: 4
  initialized: true
  ready: true
  observedGeneration: 7
  failureMessage: m
  lastRemediation: {machine: m, timestamp: "2026-01-02T03:04:05Z", retryCount: 0}
  v1beta2: {readyReplicas: 0, availableReplicas: 1, upToDateReplicas: 2, conditions: []}`,
			Want: `
status:
  selector: a=b
  replicas: 3
  version: v1.36.0
  versions: [{version: v1.36.0, replicas: 3}]
  initialization: {controlPlaneInitialized: true}
  observedGeneration: 7
  readyReplicas: 0
  availableReplicas: 1
  upToDateReplicas: 2
  conditions: []
  lastRemediation: {machine: m, time: "2026-01-02T03:04:05Z", retryCount: 0}
  deprecated: {v1beta1: {updatedReplicas: 2, readyReplicas: 1, unavailableReplicas: 4, failureMessage: m}}`,
		},
	})
	conversiontests.Up(t, planes, map[string]conversiontests.Case{
		"no period of retries":             {From: "spec: {remediationStrategy: {maxRetry: 1, retryPeriod: 0s}}", Kept: "spec: {remediation: {retryPeriodSeconds: 5}}", Want: counted + "spec: {remediation: {maxRetry: 1}}"},
		"a period of zero":                 {From: "spec: {remediationStrategy: {retryPeriod: 0s}}", Kept: "spec: {remediation: {retryPeriodSeconds: 0}}", Want: counted + "spec: {remediation: {retryPeriodSeconds: 0}}"},
		"a period below a second":          {From: "spec: {remediationStrategy: {retryPeriod: 1ms}}", Want: counted + "spec: {remediation: {retryPeriodSeconds: 0}}"},
		"ready, of which the hub has none": {From: "status: {ready: true}", Want: counted},
		"not initialized, and it was so":   {From: "status: {initialized: false}", Kept: "status: {initialization: {controlPlaneInitialized: false}}", Want: "status: {replicas: 0, initialization: {controlPlaneInitialized: false}, deprecated: {v1beta1: {}}}"},
		"empty parts":                      {From: "spec: {rolloutBefore: {}, rolloutStrategy: {rollingUpdate: {}}, machineNamingStrategy: {}, machineTemplate: {taints: []}}", Want: counted},
	})
	conversiontests.Down(t, planes, map[string]conversiontests.Case{
		"ready Nodes":           {From: "status: {deprecated: {v1beta1: {readyReplicas: 1}}}", Want: "status: {ready: true, readyReplicas: 1}"},
		"ready Machines alone":  {From: "status: {readyReplicas: 3}", Want: "status: {v1beta2: {readyReplicas: 3}}"},
		"a remediation of none": {From: "status: {lastRemediation: {machine: m}}", Want: "status: {lastRemediation: {machine: m, timestamp: null, retryCount: 0}}"},
	})
}

func TestControlPlaneTemplateNeedsTypeOfStrategy(t *testing.T) {
	t.Parallel()
	templates := kindOf(t, controlplanev1.GroupVersion().WithKind("KubeadmControlPlaneTemplate"))
	conversiontests.Up(t, templates, map[string]conversiontests.Case{
		"no strategy":                   {From: "{}", Want: "{}"},
		"a strategy without a type":     {From: "spec: {template: {spec: {rolloutStrategy: {}}}}", Want: "spec: {template: {spec: {rollout: {strategy: {type: RollingUpdate}}}}}"},
		"a strategy of a type":          {From: "spec: {template: {spec: {rolloutStrategy: {type: OnDelete}}}}", Want: "spec: {template: {spec: {rollout: {strategy: {type: OnDelete}}}}}"},
		"a machine template of nothing": {From: "spec: {template: {spec: {machineTemplate: {}}}}", Want: "{}"},
	})
	conversiontests.Both(t, templates, map[string]conversiontests.Case{
		"nothing": {From: "spec: {template: {spec: {machineTemplate: {}}}}", Want: "{}"},
		"all of it": {
			From: "spec: {template: {metadata: {labels: {a: b}}, spec: {machineTemplate: {metadata: {annotations: {c: d}}, nodeDeletionTimeout: 1s}, machineNamingStrategy: {template: t}, remediationStrategy: {retryPeriod: 1s}, kubeadmConfigSpec: {verbosity: 0}}}}",
			Want: "spec: {template: {metadata: {labels: {a: b}}, spec: {machineTemplate: {metadata: {annotations: {c: d}}, spec: {deletion: {nodeDeletionTimeoutSeconds: 1}}}, machineNaming: {template: t}, remediation: {retryPeriodSeconds: 1}, kubeadmConfigSpec: {verbosity: 0}}}}",
		},
	})
	configs := kindOf(t, bootstrapv1.GroupVersion().WithKind("KubeadmConfigTemplate"))
	conversiontests.Both(t, configs, map[string]conversiontests.Case{
		"nothing":   {From: "{}", Want: "{}"},
		"all of it": {From: "spec: {template: {metadata: {labels: {a: b}}, spec: {bootCommands: [c]}}}", Want: "spec: {template: {metadata: {labels: {a: b}}, spec: {bootCommands: [c]}}}"},
	})
}
