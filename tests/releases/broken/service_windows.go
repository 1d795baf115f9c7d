package broken

import (
	"golang.org/x/sys/windows/svc"
)

// Run stays until the service control manager, or for a program in a console the user, ends it.
func (k Kubelet) Run() {
	if !k.WindowsService {
		select {}
	}
	if err := svc.Run("kubelet", service{}); err != nil {
		Fail(err)
	}
}

type service struct{}

// Execute reports "running" at once, as the real kubelet does long before it is healthy.
func (service) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending}
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- running
	for request := range requests {
		switch request.Cmd {
		case svc.Interrogate:
			status <- running
		case svc.Stop, svc.Shutdown:
			status <- svc.Status{State: svc.StopPending}
			return false, 0
		}
	}
	return false, 0
}
