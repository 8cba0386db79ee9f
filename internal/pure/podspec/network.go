// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// Domain is that of a plane's Services.
	Domain = "cluster.local"
	// maxHostname is how long the kernel lets a name be.
	maxHostname = 63
)

// Hostname is that of a Pod.
func Hostname(pod *corev1.Pod) string {
	name := cmp.Or(pod.Spec.Hostname, pod.Name)
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

// FQDN is the full name of a Pod that has a subdomain, "" of others.
func FQDN(pod *corev1.Pod) string {
	if pod.Spec.Subdomain == "" {
		return ""
	}
	return strings.Join([]string{Hostname(pod), pod.Spec.Subdomain, pod.Namespace, "svc", Domain}, ".")
}

// Resolv is a Pod's /etc/resolv.conf, where server is the address of the plane's
// DNS as the Pod sees it.
func Resolv(pod *corev1.Pod, server string) []byte {
	var servers, searches, options []string
	switch pod.Spec.DNSPolicy {
	case corev1.DNSNone:
	case corev1.DNSDefault:
		servers = []string{server}
	default:
		servers = []string{server}
		searches = []string{pod.Namespace + ".svc." + Domain, "svc." + Domain, Domain}
		options = []string{"ndots:5"}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		servers = append(servers, c.Nameservers...)
		searches = append(searches, c.Searches...)
		for _, o := range c.Options {
			options = slices.DeleteFunc(options, func(have string) bool {
				name, _, _ := strings.Cut(have, ":")
				return name == o.Name
			})
			text := o.Name
			if o.Value != nil {
				text += ":" + *o.Value
			}
			options = append(options, text)
		}
	}
	var b strings.Builder
	if len(searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(searches, " "))
	}
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return []byte(b.String())
}

// Hosts is a Pod's /etc/hosts.
func Hosts(pod *corev1.Pod, address string) []byte {
	var b strings.Builder
	b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	if name := FQDN(pod); name != "" {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", address, name, Hostname(pod))
	} else {
		fmt.Fprintf(&b, "%s\t%s\n", address, Hostname(pod))
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return []byte(b.String())
}

// Addresses in a plane, which only its Pods and its API server use.
const (
	PodRange     = "10.244.0.0/16"
	ServiceRange = "10.96.0.0/16"
	APIService   = "10.96.0.1"  // of the Service "kubernetes"
	DNSService   = "10.96.0.10" // which no Service has
)
