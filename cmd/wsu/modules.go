package main

import (
	"wsu.windows/internal/ansible"
	csrapprove "wsu.windows/modules/csr_approve"
)

// modules are all modules of the collection, by name.
var modules = []ansible.Module{
	csrapprove.Module,
}
