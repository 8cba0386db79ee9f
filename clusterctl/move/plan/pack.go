// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Pack writes a plan as text that fits into a ConfigMap: most of it are UIDs, which
// do not get smaller, and names, which do.
func Pack(p *Plan) (string, error) {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := errors.Join(json.NewEncoder(zip).Encode(p), zip.Close()); err != nil {
		return "", err
	}
	if out.Len() > 1<<20-1<<14 { // what an API server allows, less the rest of the journal
		return "", fmt.Errorf("%d objects are too many for one move: its journal would be larger than a ConfigMap may be; take the labels off that make unrelated objects move, or move in parts", len(p.Items))
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

// Unpack reads what Pack wrote.
func Unpack(packed string) (*Plan, error) {
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(zip, 256<<20))
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	return p, json.Unmarshal(text, p)
}
