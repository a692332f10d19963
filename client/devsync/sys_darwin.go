// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsync

import "syscall"

func changeTime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }
