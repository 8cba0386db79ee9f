// SPDX-License-Identifier: Apache-2.0

package conversion

// InProcessURL is what CustomResourceDefinitions name for their conversion where
// the API server has a Converter in its own process. Nothing listens there:
// .invalid never resolves (RFC 2606), so a definition that is copied to another API
// server fails there instead of calling an unrelated server.
const (
	InProcessURL  = "https://" + InProcessHost + Path
	InProcessHost = "conversion.capstan.invalid"
)
