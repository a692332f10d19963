// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package devsync

import "strings"

// checkWindows returns why Windows cannot have a file of a name (one part of a path); empty if it can. Some of
// these names are worse than impossible: "a:b" is a stream of the file a, CON and its like are devices in every
// directory, and "a." is a, whose content would be lost. Source: learn.microsoft.com, "Naming Files, Paths, and
// Namespaces".
func checkWindows(name string) string {
	if strings.ContainsAny(name, `<>:"|?*\`) {
		return `Windows has no names with any of < > : " | ? * \`
	}
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return "Windows has no names that end in a dot or a space"
	}
	stem, _, _ := strings.Cut(name, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return "Windows has a device of this name"
	}
	for _, device := range []string{"COM", "LPT"} {
		if number, ok := strings.CutPrefix(stem, device); ok && strings.Contains("0 1 2 3 4 5 6 7 8 9 ¹ ² ³", number) && number != "" {
			return "Windows has a device of this name"
		}
	}
	return ""
}
