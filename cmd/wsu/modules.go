package main

import (
	"wsu.windows/internal/ansible"
	csrapprove "wsu.windows/modules/csr_approve"
	"wsu.windows/modules/node"
)

// modules are all modules of the collection, by name.
var modules = []ansible.Module{
	csrapprove.Module,
	node.Module,
}
