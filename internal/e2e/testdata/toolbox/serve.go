// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// is reports whether a state holds: whether a file of its name exists.
func is(state string) bool {
	_, err := os.Stat(filepath.Join("/state", state))
	return err == nil
}

// The ports for the states over TCP.
var ports = map[string]int{"startup": 9001, "ready": 9002, "live": 9003}

// serve reports states by every protocol of probes: by HTTP on port 8080 and HTTPS
// on 8443, as paths; by gRPC on 9000, as services; by TCP, as ports that are
// listened on. On port 7000 it sends back what it gets. It leaves a message of how
// it was ended.
func serve([]string) error {
	failed := make(chan error)
	tell := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !is(r.URL.Path) {
			http.Error(w, "not "+r.URL.Path, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "yes, over", map[bool]string{true: "TLS", false: "TCP"}[r.TLS != nil])
	})
	certificate, err := selfSigned()
	if err != nil {
		return err
	}
	secure := http.Server{Addr: ":8443", Handler: tell, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go func() { failed <- http.ListenAndServe(":8080", tell) }()
	go func() { failed <- secure.ListenAndServeTLS("", "") }()
	go func() { failed <- health() }()
	go func() { failed <- echo() }()
	go func() { failed <- farewell([]string{"/dev/termination-log"}) }()
	for state, port := range ports {
		go func() { failed <- listenWhile(state, port) }()
	}
	return <-failed
}

// selfSigned is a certificate that no client trusts, for a name that no client
// requests.
func selfSigned() (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"nobody"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// listenWhile listens on a port while a state holds.
func listenWhile(state string, port int) error {
	var l net.Listener
	for ; ; time.Sleep(20 * time.Millisecond) {
		switch holds := is(state); {
		case holds && l == nil:
			var err error
			if l, err = net.Listen("tcp", fmt.Sprint(":", port)); err != nil {
				return err
			}
		case !holds && l != nil:
			if err := l.Close(); err != nil {
				return err
			}
			l = nil
		}
	}
}

func echo() error {
	l, err := net.Listen("tcp", ":7000")
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}()
	}
}

type states struct {
	grpc_health_v1.UnimplementedHealthServer
}

// Check implements the protocol of health of gRPC.
func (states) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if _, known := ports[r.Service]; !known {
		return nil, status.Error(codes.NotFound, "there is no service "+r.Service)
	}
	answer := &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}
	if is(r.Service) {
		answer.Status = grpc_health_v1.HealthCheckResponse_SERVING
	}
	return answer, nil
}

func health() error {
	l, err := net.Listen("tcp", ":9000")
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, states{})
	return errors.Join(s.Serve(l), l.Close())
}
