//go:build windows

// Command unregistered is a kubelet that is healthy for all that its own machine can see, and never speaks to the API server.
package main

import "wsu.windows/tests/releases/broken"

func main() {
	kubelet := broken.Start()
	go func() {
		if err := kubelet.Serve(); err != nil {
			broken.Fail(err)
		}
	}()
	broken.Log("I", "\"This kubelet was made never to register\" healthz=%q", kubelet.Healthz)
	kubelet.Run()
}
