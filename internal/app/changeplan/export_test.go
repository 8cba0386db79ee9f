// SPDX-License-Identifier: Apache-2.0

package changeplan

// Exhaustive makes Make call every controller for every object in each round.
func Exhaustive(o Options) Options {
	o.exhaustive = true
	return o
}
