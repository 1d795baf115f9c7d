// Package version holds the release that the binaries belong to.
package version

// Release is the version of the playbooks, modules and wmcb.exe, as in release.yml.
// The build sets it with -ldflags "-X wsu.windows/internal/version.Release=...".
var Release = "0.0.0-dev"
