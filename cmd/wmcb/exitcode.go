package main

import (
	"slices"

	"wsu.windows/internal/reason"
)

// Exit codes that are no reason's group.
const (
	exitInternal = 1
	exitUsage    = 2
)

// exitGroup is one exit code and the reasons that have it: who has to act.
type exitGroup struct {
	code    int
	meaning string
	reasons []reason.Code
}

// exitGroups is the table of docs/wmcb.md.
var exitGroups = []exitGroup{
	{3, "what was given is wrong", []reason.Code{
		reason.ArgumentInvalid, reason.SpecInvalid, reason.IgnitionInvalid, reason.FileMissing, reason.ReleaseInvalid, reason.KubeconfigInvalid,
	}},
	{4, "the machine cannot be a node as it is", []reason.Code{
		reason.WindowsUnsupported, reason.NotElevated, reason.NodeNameInvalid, reason.RuntimeMissing, reason.RuntimeUnsupported, reason.ForeignKubelet,
		reason.ForeignNode, reason.DiskFull, reason.PendingReboot, reason.PortInUse, reason.NetworkUnsuitable, reason.ClockSkew, reason.AccessDenied, reason.FileLocked,
	}},
	{5, "the cluster cannot be reached or does not let it in", []reason.Code{
		reason.APIUnreachable, reason.APIUntrusted, reason.APIForbidden, reason.DNSFailed, reason.EnrollFailed, reason.CSRRefused, reason.CSRMissing, reason.CertificateNotIssued,
	}},
	{6, "a step failed; what was begun was undone", []reason.Code{
		reason.ApplyFailed, reason.ServiceFailed, reason.KubeletUnhealthy, reason.NodeNotRegistered, reason.NodeNotReady,
	}},
	{7, "a transfer failed; run it again", []reason.Code{reason.TransferChecksum, reason.ProtocolUnsupported, reason.ConnectionLost}},
	{8, "another wmcb is at work; run it again", []reason.Code{reason.NodeBusy, reason.TransferBusy}},
	{9, "it was interrupted or took too long; run it again", []reason.Code{reason.Interrupted, reason.Timeout}},
	{10, "the state on the machine cannot be read", []reason.Code{reason.StateUnreadable}},
	{11, "there is nothing to roll back to; nothing was changed", []reason.Code{reason.RollbackUnavailable}},
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	code := reason.Of(err).Code
	for _, group := range exitGroups {
		if slices.Contains(group.reasons, code) {
			return group.code
		}
	}
	return exitInternal
}
