// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTimeout  = 10 * time.Second            // for a request's headers to arrive
	requestTimeout = MaxTimeout + 10*time.Second // for all of a request that is refused
	writeTimeout   = MaxTimeout + 15*time.Second // from the headers to the end of the answer
	idleTimeout    = 2 * time.Minute             // between two requests of a connection
	maxHeaderBytes = 64 << 10                    //
	lastWait       = time.Second                 // for handlers whose context was just canceled
)

// Start listens and serves until ctx ends, and then closes gracefully: it is no longer
// ready, accepts no further connections, and lets the calls in flight finish within
// GracePeriod. That is the normal stop, and returns nil. It returns an error if it had to
// cut off calls. A server is started once.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	again := s.started
	s.started = true
	s.mu.Unlock()
	if again {
		return errors.New("start extension server: it was started before")
	}
	if err := s.serve(ctx); err != nil {
		return fmt.Errorf("serve runtime extensions: %w", err)
	}
	return nil
}

func (s *Server) serve(ctx context.Context) error {
	calls, cut := context.WithCancel(context.WithoutCancel(ctx)) // of the calls; they outlive ctx by the grace period
	defer cut()
	main, operations := s.httpServer(calls, s), s.httpServer(calls, s.operations())
	main.TLSConfig = s.tls.config()
	listeners, err := s.listen(ctx)
	if ctx.Err() != nil && err != nil {
		return nil // stopped before it started
	}
	if err != nil {
		return err
	}
	failed := make(chan error, len(listeners))
	var serving sync.WaitGroup
	serving.Go(func() { failed <- main.ServeTLS(listeners[0], "", "") })
	if len(listeners) > 1 {
		serving.Go(func() { failed <- operations.Serve(listeners[1]) })
	}
	s.log.Info("Serving runtime extensions", "url", s.URL(), "operations", s.OperationsURL(), "handlers", len(s.handlers()))
	close(s.ready)
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.stopping.Store(true)
	s.log.Info("Stopping", "gracePeriod", s.options.GracePeriod.String())
	err = errors.Join(err, s.drain(context.WithoutCancel(ctx), main, cut))
	_ = operations.Close() // last, so that clients can see that it is no longer ready
	serving.Wait()
	return err
}

func (s *Server) httpServer(calls context.Context, handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return calls },
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          connectionLog(s.log),
	}
}

// listen opens the listener for calls, and that for operations if it is configured.
func (s *Server) listen(ctx context.Context) ([]net.Listener, error) {
	var config net.ListenConfig
	main, err := config.Listen(ctx, "tcp", s.options.Address)
	if err != nil {
		return nil, err
	}
	all := []net.Listener{main}
	if s.options.OperationsAddress != "" {
		operations, err := config.Listen(ctx, "tcp", s.options.OperationsAddress)
		if err != nil {
			return nil, errors.Join(err, main.Close())
		}
		all = append(all, operations)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.main = main.Addr()
	if len(all) > 1 {
		s.operationsAdr = all[1].Addr()
	}
	return all, nil
}

// drain lets the calls in flight finish, and cuts off those that do not.
func (s *Server) drain(ctx context.Context, main *http.Server, cut func()) error {
	grace, cancel := context.WithTimeout(ctx, s.options.GracePeriod)
	defer cancel()
	shut := main.Shutdown(grace)
	ended := s.await(grace, 0)
	if shut == nil && ended == cap(s.slots) {
		return nil
	}
	cut()
	_ = main.Close() // the remaining calls are cut off, and reported below
	last, cancelLast := context.WithTimeout(ctx, lastWait)
	defer cancelLast()
	s.await(last, ended)
	if ended == cap(s.slots) {
		return nil // only connections without a call were left
	}
	return fmt.Errorf("calls had not ended %s after the stop and were cut off: %d", s.options.GracePeriod, cap(s.slots)-ended)
}

// await takes the slots permanently, of which some are taken already, as the calls that
// hold them end. It returns the number of slots that it has.
func (s *Server) await(ctx context.Context, taken int) int {
	for ; taken < cap(s.slots); taken++ {
		select {
		case s.slots <- struct{}{}: // a free one, also after the deadline
			continue
		default:
		}
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return taken
		}
	}
	return taken
}
