// SPDX-License-Identifier: Apache-2.0

package differ

// realKind is a kind of a topology: an intent such as a topology has, and other
// values for some of its paths.
type realKind struct {
	base  map[string]any
	edits map[string][]any
}

// meta has the objects paused, so that controllers leave them alone.
const meta = `"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"differ","topology.cluster.x-k8s.io/owned":""},"annotations":{"cluster.x-k8s.io/paused":"","a":"1"}}`

const kubeadm = `{"clusterConfiguration":{"apiServer":{"extraArgs":[{"name":"v","value":"2"},{"name":"audit-log-path","value":"/var/log/a"}],"certSANs":["a.example","b.example"],
   "extraVolumes":[{"name":"audit","hostPath":"/etc/audit","mountPath":"/etc/audit"}]},"featureGates":{"A":true},"imageRepository":"images.example"},
 "initConfiguration":{"nodeRegistration":{"criSocket":"unix:///run/containerd.sock","kubeletExtraArgs":[{"name":"v","value":"2"}],"taints":[]}},
 "joinConfiguration":{"nodeRegistration":{"kubeletExtraArgs":[{"name":"v","value":"2"}]}},
 "files":[{"path":"/etc/a","content":"x"},{"path":"/etc/b","contentFrom":{"secret":{"name":"s","key":"k"}}}],
 "preKubeadmCommands":["one","two"],"users":[{"name":"u","sshAuthorizedKeys":["k1"]}]}`

var metadataEdits = edits(`
metadata.labels.extra         -  "1"  ""
metadata.annotations.a        -  "1"  "2"
metadata.annotations.example  -  "&<>"
`)

var kubeadmEdits = edits(`
files                                                -  [{"path":"/etc/a","content":"x"}]  [{"path":"/etc/a","content":"y","permissions":"0600"}]  [{"path":"/etc/b","content":"","append":true},{"path":"/etc/a"}]
preKubeadmCommands                                   -  ["two","one"]  ["one"]
clusterConfiguration.apiServer.extraArgs             -  [{"name":"audit-log-path","value":"/var/log/a"},{"name":"v","value":"2"}]  [{"name":"v","value":"5"}]  [{"name":"v","value":"5"},{"name":"v","value":"6"}]
clusterConfiguration.apiServer.certSANs              -  ["b.example"]  ["b.example","a.example"]
clusterConfiguration.featureGates                    -  {"A":false}  {"A":true,"B":false}  {}
clusterConfiguration.imageRepository                 -  "images.example"  "other.example"
initConfiguration.nodeRegistration.taints            -  []  [{"key":"a","effect":"NoSchedule"}]  [{"key":"a","value":"b","effect":"NoExecute"}]
initConfiguration.nodeRegistration.kubeletExtraArgs  -  [{"name":"v","value":"4"}]  [{"name":"z","value":"4"},{"name":"v","value":"2"}]
joinConfiguration                                    -  {"discovery":{"bootstrapToken":{"token":"abcdef.0123456789abcdef"}}}  {"nodeRegistration":{"criSocket":"unix:///x"}}  {"discovery":{"file":{"kubeConfigPath":"/k","kubeConfig":{"user":{"exec":{"command":"c","env":[{"name":"a","value":"b"}]}}}}}}
users                                                -  [{"name":"u","sshAuthorizedKeys":["k1","k2"]}]  [{"name":"w","sudo":"ALL"}]
format                                               -  "cloud-config"
diskSetup                                            -  {"filesystems":[{"device":"/d","filesystem":"ext4","label":"l","extraOpts":["-E"]}]}  {"partitions":[{"device":"/d","layout":true}]}
ntp                                                  -  {"enabled":true,"servers":["a"]}  {"servers":["b","a"]}
verbosity                                            -  3  0
`)

var topologyKinds = map[string]realKind{
	"KubeadmControlPlane": {
		decodeObject(`{` + meta + `,"spec":{"replicas":3,"version":"v1.33.0","machineTemplate":{"metadata":{"labels":{"l":"1"}},
			"spec":{"infrastructureRef":{"apiGroup":"infrastructure.capstan.dev","kind":"LocalMachineTemplate","name":"t"}}},"kubeadmConfigSpec":` + kubeadm + `}}`),
		join(below("spec.kubeadmConfigSpec", kubeadmEdits), edits(`
spec.replicas                                     -  1  3
spec.version                                      "v1.33.1"  "v1.33.0"  "1.33.1"
spec.machineTemplate.metadata.labels              -  {"l":"2"}  {"m":"1"}  {}
spec.machineTemplate.spec.infrastructureRef.name  "t"  "t2"
spec.machineTemplate.spec.deletion                -  {"nodeDrainTimeoutSeconds":0}  {"nodeDrainTimeoutSeconds":60,"nodeDeletionTimeoutSeconds":1}
spec.rollout                                      -  {"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}  {"strategy":{"rollingUpdate":{"maxSurge":"1"}}}  {"before":{"certificatesExpiryDays":30}}
spec.machineTemplate.spec.readinessGates          -  [{"conditionType":"a"}]  [{"conditionType":"b"},{"conditionType":"a"}]
spec.machineNaming                                -  {"template":"{{ .kubeadmControlPlane.name }}-{{ .random }}"}
`)),
	},
	"KubeadmConfigTemplate": {
		decodeObject(`{` + meta + `,"spec":{"template":{"metadata":{"labels":{"l":"1"}},"spec":` + kubeadm + `}}}`),
		join(below("spec.template.spec", kubeadmEdits), edits(`spec.template.metadata  -  {"labels":{"l":"2"}}  {"annotations":{"z":""}}`)),
	},
	"MachineDeployment": {
		decodeObject(`{` + meta + `,"spec":{"clusterName":"differ","replicas":2,"selector":{"matchLabels":{"cluster.x-k8s.io/cluster-name":"differ","x":"y"}},
			"template":{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"differ","x":"y"}},"spec":{"clusterName":"differ","version":"v1.33.0",
			"bootstrap":{"configRef":{"apiGroup":"bootstrap.cluster.x-k8s.io","kind":"KubeadmConfigTemplate","name":"b"}},
			"infrastructureRef":{"apiGroup":"infrastructure.capstan.dev","kind":"LocalMachineTemplate","name":"t"}}}}}`),
		edits(`
spec.replicas                                -  2  5
spec.template.spec.version                   "v1.33.0"  "v1.33.2"  "1.33.2"  -
spec.template.spec.failureDomain             -  "a"  "b"
spec.template.spec.bootstrap.configRef.name  "b"  "b2"
spec.template.metadata.labels.z              -  "1"  ""
spec.template.metadata.annotations           -  {"q":"1"}  {}
spec.rollout                                 -  {"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0,"maxSurge":1}}}  {"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"10%"}}}  {"strategy":{"type":"OnDelete"}}  {"after":"2030-01-01T00:00:00Z"}  {"after":"2030-01-01T01:00:00+01:00"}
spec.deletion                                -  {"order":"Newest"}  {"order":"Random"}
spec.template.spec.deletion                  -  {"nodeDrainTimeoutSeconds":10}
spec.paused                                  -  true  false
spec.template.spec.minReadySeconds           -  0  10
spec.template.spec.taints                    -  [{"key":"a","effect":"NoSchedule","propagation":"Always"}]  [{"key":"b","effect":"NoSchedule","propagation":"OnInitialization"},{"key":"a","effect":"NoSchedule","propagation":"Always"}]
spec.remediation                             -  {"maxInFlight":1}  {"maxInFlight":"20%"}
`),
	},
	"MachinePool": {
		decodeObject(`{` + meta + `,"spec":{"clusterName":"differ","replicas":2,"failureDomains":["a","b"],"template":{"metadata":{"labels":{"x":"y"}},"spec":{"clusterName":"differ","version":"v1.33.0",
			"bootstrap":{"configRef":{"apiGroup":"bootstrap.cluster.x-k8s.io","kind":"KubeadmConfig","name":"b"}},
			"infrastructureRef":{"apiGroup":"infrastructure.capstan.dev","kind":"LocalMachinePool","name":"t"}}}}}`),
		edits(`
spec.replicas                       -  2  0
spec.failureDomains                 -  ["b","a"]  ["a"]
spec.template.metadata.labels.z     -  "1"
spec.template.spec.taints           -  [{"key":"a","effect":"NoSchedule","propagation":"Always"}]
spec.template.spec.minReadySeconds  -  0  10
`),
	},
	"MachineHealthCheck": {
		decodeObject(`{` + meta + `,"spec":{"clusterName":"differ","selector":{"matchLabels":{"x":"y"}},
			"checks":{"nodeStartupTimeoutSeconds":600,"unhealthyNodeConditions":[{"type":"Ready","status":"False","timeoutSeconds":300}]}}}`),
		edits(`
spec.checks.nodeStartupTimeoutSeconds  -  600  0  700
spec.selector                          {"matchLabels":{"x":"y"}}  {"matchLabels":{"x":"z"}}  {"matchExpressions":[{"key":"a","operator":"Exists"}]}
spec.checks.unhealthyNodeConditions    -  [{"type":"Ready","status":"Unknown","timeoutSeconds":30},{"type":"Ready","status":"False","timeoutSeconds":300}]
spec.remediation                       -  {"triggerIf":{"unhealthyLessThanOrEqualTo":"40%"}}  {"triggerIf":{"unhealthyLessThanOrEqualTo":3}}  {"templateRef":{"kind":"R","name":"n","apiVersion":"g/v1"}}
`),
	},
	"LocalCluster": {
		decodeObject(`{` + meta + `,"spec":{"simulated":{},"failureDomains":[{"name":"a","controlPlane":true},{"name":"b","attributes":{"k":"v"}}]}}`),
		edits(`
spec.failureDomains        -  [{"name":"b","attributes":{"k":"v"}},{"name":"a","controlPlane":true}]  [{"name":"a","controlPlane":false}]  [{"name":"c","attributes":{}}]
spec.controlPlaneEndpoint  -  {"host":"h","port":6443}  {"port":1}
spec.simulated             {}
`),
	},
	"LocalMachineTemplate": {
		decodeObject(`{` + meta + `,"spec":{"template":{"spec":{"simulated":{}}}}}`),
		edits(`
spec.template.metadata        -  {"labels":{"l":"2"}}  {"annotations":{"z":""}}
spec.template.spec.simulated  {}  {"etcd":{"startupMilliseconds":5}}  {"etcd":{"startupMilliseconds":5,"jitterPercent":0},"apiServer":{}}
`),
	},
}
