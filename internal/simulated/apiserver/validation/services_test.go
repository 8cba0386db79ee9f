// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestObjectChecksServices(t *testing.T) {
	t.Parallel()
	const one = "spec: {ports: [{port: 80}]}"
	added := func(text, want string) change { return change{"spec: {", "spec: {" + text + ", ", want} }
	ports := func(text, want string) change { return change{"[{port: 80}]", "[" + text + "]", want} }
	compare(t, &corev1.Service{}, one, []change{
		added("type: Other", "spec.type: Unsupported value"),
		ports("", "spec.ports: Required value"),
		{"ports: [{port: 80}]", "clusterIP: None", ""},
		added("type: NodePort, clusterIP: None", "spec.clusterIPs[0]: Invalid value"),
		added("type: LoadBalancer, clusterIP: None", "spec.clusterIPs[0]: Invalid value"),

		ports("{port: 80, name: a}, {port: 81, name: b}", ""),
		ports("{port: 80, name: a}, {port: 80, name: b, protocol: UDP}", ""),
		ports("{port: 80}, {port: 81}", "spec.ports[0].name: Required value"),
		ports("{port: 80, name: A}", "spec.ports[0].name: Invalid value"),
		ports("{port: 80, name: a}, {port: 81, name: a}", "spec.ports[1].name: Duplicate value"),
		ports("{port: 80, name: a}, {port: 80, name: b}", "spec.ports[1]: Duplicate value"),
		ports("{port: 0}", "spec.ports[0].port: Invalid value: 0"),
		ports("{port: 80, protocol: ICMP}", "spec.ports[0].protocol: Unsupported value"),
		ports("{port: 80, targetPort: http}", ""),
		ports("{port: 80, targetPort: 70000}", "spec.ports[0].targetPort: Invalid value"),
		ports("{port: 80, targetPort: A_b}", "spec.ports[0].targetPort: Invalid value"),
		ports("{port: 80, appProtocol: kubernetes.io/h2c}", ""),
		ports("{port: 80, appProtocol: a b}", "spec.ports[0].appProtocol: Invalid value"),

		added("selector: {a b: c}", "spec.selector: Invalid value"),
		added("sessionAffinity: Other", "spec.sessionAffinity: Unsupported value"),
		added("sessionAffinity: ClientIP", ""),
		added("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}", ""),
		added("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 0}}", "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0"),
		added("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}", "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401"),
	})
}

func TestObjectChecksTheAddressesOfServices(t *testing.T) {
	t.Parallel()
	added := func(text, want string) change { return change{"spec: {", "spec: {" + text + ", ", want} }
	compare(t, &corev1.Service{}, "spec: {ports: [{port: 80}]}", []change{
		added("clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]", ""),
		added("clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 'fd00::1']", ""),
		added("clusterIPs: [10.0.0.1]", "spec.clusterIPs: Invalid value"),
		added("clusterIP: 10.0.0.1, clusterIPs: [10.0.0.2]", "spec.clusterIPs: Invalid value"),
		added("clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 10.0.0.1]", "spec.clusterIPs[1]: Duplicate value"),
		added("clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 10.0.0.2, 10.0.0.3]", "spec.clusterIPs: Invalid value"),
		added("clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, x]", "spec.clusterIPs[1]: Invalid value"),
		added("clusterIP: None, clusterIPs: [None, 10.0.0.1]", "spec.clusterIPs: Invalid value"),
		added("ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack", ""),
		added("ipFamilies: [IPv5]", "spec.ipFamilies[0]: Unsupported value"),
		added("ipFamilies: [IPv4, IPv4]", "spec.ipFamilies[1]: Duplicate value"),
		added("ipFamilyPolicy: Both", "spec.ipFamilyPolicy: Unsupported value"),

		added("externalIPs: [192.0.2.1]", ""),
		added("externalIPs: [x]", "spec.externalIPs[0]: Invalid value"),
		added("externalIPs: [127.0.0.1]", "spec.externalIPs[0]: Invalid value"),
		added("externalIPs: [0.0.0.0]", "spec.externalIPs[0]: Invalid value"),
		added("externalIPs: [169.254.1.1]", "spec.externalIPs[0]: Invalid value"),
		added("externalIPs: ['::ffff:127.0.0.1']", "spec.externalIPs[0]: Invalid value"),
		added("externalIPs: ['fe80::1%eth0']", "spec.externalIPs[0]: Invalid value"),
	})
	compare(t, &corev1.Service{}, "spec: {type: ExternalName, externalName: a.example.com.}", []change{
		{"a.example.com.", "''", "spec.externalName: Required value"},
		{"a.example.com.", "A_b", "spec.externalName: Invalid value"},
		added("ipFamilyPolicy: SingleStack", "spec.ipFamilies: Forbidden"),
		added("externalTrafficPolicy: Local", "spec.externalTrafficPolicy: Invalid value"),
	})
}

func TestObjectChecksHowServicesAreReached(t *testing.T) {
	t.Parallel()
	added := func(text, want string) change { return change{"spec: {", "spec: {" + text + ", ", want} }
	compare(t, &corev1.Service{}, "spec: {ports: [{port: 80}]}", []change{
		added("externalTrafficPolicy: Local", "spec.externalTrafficPolicy: Invalid value"),
		added("externalIPs: [192.0.2.1], externalTrafficPolicy: Local", ""),
		added("type: NodePort, externalTrafficPolicy: Local", ""),
		added("type: NodePort, externalTrafficPolicy: Some", "spec.externalTrafficPolicy: Unsupported value"),
		added("internalTrafficPolicy: Some", "spec.internalTrafficPolicy: Unsupported value"),
		added("allocateLoadBalancerNodePorts: false", "spec.allocateLoadBalancerNodePorts: Forbidden"),
		added("type: LoadBalancer, allocateLoadBalancerNodePorts: false", ""),
		added("loadBalancerSourceRanges: [10.0.0.0/8]", "spec.loadBalancerSourceRanges: Forbidden"),
		added("type: LoadBalancer, loadBalancerSourceRanges: [' 10.0.0.0/8 ']", ""),
		added("type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0]", "spec.loadBalancerSourceRanges[0]: Invalid value"),
		added("loadBalancerClass: a/b", "spec.loadBalancerClass: Forbidden"),
		added("type: LoadBalancer, loadBalancerClass: a/b", ""),
		added("type: LoadBalancer, loadBalancerClass: a b", "spec.loadBalancerClass: Invalid value"),
		added("trafficDistribution: PreferClose", ""),
		added("trafficDistribution: Random", "spec.trafficDistribution: Unsupported value"),
	})
}
