// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"flag"
	"io"
	"strconv"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// SetLog sends the log of everything in the process to w.
func SetLog(w io.Writer, level int) {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true", "v": strconv.Itoa(level)} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // klog has these flags
		}
	}
	klog.SetOutput(w)
	ctrl.SetLogger(klog.Background())
}
