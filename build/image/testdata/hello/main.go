// SPDX-License-Identifier: Apache-2.0

// Command hello is what images are tried with.
package main

import "os"

func main() { _, _ = os.Stdout.WriteString("hello\n") }
