// Package winrm holds the WinRM endpoint of Windows hosts, a Python package; see README.md.
package winrm

import "embed"

// Package is the folder winrm_endpoint.
//
//go:embed winrm_endpoint/*.py
var Package embed.FS
