// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// terminate is SIGTERM.
const terminate = 15

// The first and the last real-time signal, from which the others are counted.
const (
	firstRealTime = 34
	lastRealTime  = 64
)

// signals are those of Linux, on which Pods run, on every platform of this program.
var signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11,
	"USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": terminate, "STKFLT": 16, "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20,
	"TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29, "POLL": 29,
	"PWR": 30, "SYS": 31, "RTMIN": firstRealTime, "RTMAX": lastRealTime,
}

// StopSignal is the number of the signal that asks a container to exit: its own, or that
// of its image. Without a valid one, it is SIGTERM.
func StopSignal(c *corev1.Container, image Image) int {
	name := image.StopSignal
	if l := c.Lifecycle; l != nil && l.StopSignal != nil {
		name = string(*l.StopSignal)
	}
	return cmp.Or(signal(name), terminate)
}

// signal is the number of a name such as SIGUSR1, USR1, 10 or SIGRTMIN+3; 0 if it is
// invalid.
func signal(name string) int {
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if n, err := strconv.Atoi(name); err == nil {
		if n < 1 || n > lastRealTime {
			return 0
		}
		return n
	}
	if n := signals[name]; n > 0 {
		return n
	}
	for _, from := range []struct {
		name string
		sign int
	}{{"RTMIN+", 1}, {"RTMAX-", -1}} {
		text, counted := strings.CutPrefix(name, from.name)
		offset, err := strconv.Atoi(text)
		if counted && err == nil && offset >= 0 && offset <= lastRealTime-firstRealTime {
			return signals[from.name[:len(from.name)-1]] + from.sign*offset
		}
	}
	return 0
}
