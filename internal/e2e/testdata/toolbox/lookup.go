// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// lookup resolves a name: its kind is A, AAAA or SRV, by UDP or, with /tcp after
// it, by TCP.
func lookup(args []string) error {
	kind, by, _ := strings.Cut(args[0], "/")
	r := &net.Resolver{PreferGo: true}
	if by == "tcp" {
		r.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}
	var found []string
	var err error
	switch kind {
	case "SRV":
		var all []*net.SRV
		_, all, err = r.LookupSRV(context.Background(), "", "", args[1])
		for _, s := range all {
			found = append(found, fmt.Sprint(s.Target, ":", s.Port))
		}
	default:
		var all []net.IP
		all, err = r.LookupIP(context.Background(), map[string]string{"A": "ip4", "AAAA": "ip6"}[kind], args[1])
		for _, ip := range all {
			found = append(found, ip.String())
		}
	}
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		fmt.Println("none")
		return nil
	}
	slices.Sort(found)
	fmt.Println(strings.Join(found, " "))
	return err
}
