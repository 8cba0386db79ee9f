// SPDX-License-Identifier: Apache-2.0

// Command server is what runs in the Pods of the tests.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "crash":
			fmt.Println("panic: I was asked to")
			os.Exit(7)
		case "cat":
			b, err := os.ReadFile(os.Args[2])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Print(string(b))
			return
		}
	}
	fmt.Printf("serving as %d, GREETING=%s\n", os.Getuid(), os.Getenv("GREETING"))
	http.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		if to := req.URL.Query().Get("dial"); to != "" {
			conn, err := net.Dial("tcp", to)
			if err == nil {
				_, err = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}
			_, _ = fmt.Fprintf(w, "%v", err)
			return
		}
		b, _ := os.ReadFile("/etc/config/word")
		_, _ = fmt.Fprint(w, strings.TrimSpace(string(b)))
	})
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		<-ended
		fmt.Println("ending as asked")
		os.Exit(0)
	}()
	fmt.Println(http.ListenAndServe(":8080", nil))
}
