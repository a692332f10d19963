// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package bind

import "time"

// SetPatience sets how long a refusal to list a kind counts as one of the moment.
func (p *Plan) SetPatience(d time.Duration) { p.patience = d }
