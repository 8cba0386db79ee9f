// SPDX-License-Identifier: Apache-2.0

// Command document writes the OpenAPI document of all published hooks; go
// generate runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/extension/openapi"
)

func main() {
	output := flag.String("output", "openapi.json", "file to write")
	flag.Parse()
	if err := write(*output); err != nil {
		fmt.Fprintf(os.Stderr, "write %s: %v\n", *output, err)
		os.Exit(1)
	}
}

func write(file string) error {
	data, err := openapi.Render(catalog.Default(), openapi.Version)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
