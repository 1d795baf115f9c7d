// Package ssh reaches Windows hosts over SSH, with what Ansible's own ssh connection would use: the host's connection variables, the
// user's agent and keys, known_hosts, and the simple parts of ~/.ssh/config.
//
// Of ansible_ssh_common_args and ansible_ssh_extra_args these are honoured: -i, -l, -p and the options (-o) IdentityFile, User, Port,
// UserKnownHostsFile, StrictHostKeyChecking (yes and accept-new), HostKeyAlias and ConnectTimeout. Options that only tune OpenSSH itself
// (ControlMaster, ServerAliveInterval, Compression, ...) have no meaning here and are passed over. Any other one is an error that names
// it, because to pass over an option that changes whom one talks to would be worse.
//
// Of ~/.ssh/config, HostName, Port, User, IdentityFile, UserKnownHostsFile and HostKeyAlias are honoured; the inventory's variables win.
// ProxyJump and ProxyCommand there are not seen yet (docs/limits.md).
package ssh
