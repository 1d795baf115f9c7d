package main

import "wsu.windows/internal/ansible"

// modules are all modules of the collection, by name.
var modules = []ansible.Module{}
