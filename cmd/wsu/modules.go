package main

import (
	"wsu.windows/internal/ansible"
	clusterinfo "wsu.windows/modules/cluster_info"
	"wsu.windows/modules/conflicts"
	csrapprove "wsu.windows/modules/csr_approve"
	ignitionmodule "wsu.windows/modules/ignition"
	"wsu.windows/modules/node"
	"wsu.windows/modules/payload"
	"wsu.windows/modules/report"
	"wsu.windows/modules/rollout"
	"wsu.windows/modules/transfer"
	"wsu.windows/modules/wmcb"
)

// modules are all modules of the collection, by name.
var modules = []ansible.Module{
	clusterinfo.Module,
	conflicts.Module,
	csrapprove.Module,
	ignitionmodule.Module,
	node.Module,
	payload.Module,
	report.Module,
	rollout.Module,
	transfer.Module,
	wmcb.Module,
}
