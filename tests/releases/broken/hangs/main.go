//go:build windows

// Command hangs is a kubelet that runs as a service and never becomes healthy.
package main

import "wsu.windows/tests/releases/broken"

func main() {
	kubelet := broken.Start()
	broken.Log("I", "\"This kubelet was made to hang before it answers\" healthz=%q", kubelet.Healthz)
	kubelet.Run()
}
