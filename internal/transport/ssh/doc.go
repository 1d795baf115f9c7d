// Package ssh reaches Windows hosts over SSH as the user's own OpenSSH would, without starting it: with the host's connection variables, the
// user's agent and keys, known_hosts, bastions, and what ~/.ssh/config and /etc/ssh/ssh_config say of the host.
//
// # Options
//
// They come, the first word counting, from the variables, from ansible_ssh_common_args with ansible_ssh_extra_args, from the user's file and
// from the system's (or from the file of -F alone). Honoured in all of them: User, Port, HostName, IdentityFile, CertificateFile,
// IdentitiesOnly, IdentityAgent, HostKeyAlias, UserKnownHostsFile, GlobalKnownHostsFile, RevokedHostKeys (a list of keys), ProxyJump,
// ProxyCommand (see below), AddressFamily, PreferredAuthentications, PubkeyAuthentication, PasswordAuthentication and
// KbdInteractiveAuthentication; the tokens %d %h %i %k %n %p %r %u, ${VARIABLE} and ~/. Only in the arguments, and for the hosts' sake not in
// files: StrictHostKeyChecking (yes, ask, accept-new; no is an error) and ConnectTimeout. The letters are -4 -6 -F -i -J -l -o -p.
//
// Of the arguments, options that only tune OpenSSH itself (ControlMaster, ServerAliveInterval, Compression, ...) have no meaning here and are
// passed over; any other one is an error that names it, because to pass over an option that changes whom one talks to would be worse. In the
// files, what is not honoured is passed over, as they are written for other programs too. Host, Include and Match (all, final, host,
// originalhost, user, localuser) are understood; under another condition (Match exec), an option that would change whom one talks to is an
// error. HashKnownHosts is passed over: first keys are written readably.
//
// # Bastions
//
// ProxyJump may name several, and a bastion's own Host entry may name more. `ProxyCommand=ssh -W %h:%p [OPTIONS] [USER@]BASTION` is the same;
// every other ProxyCommand is an error. As with OpenSSH, the options of the host are not the bastion's: its user, port, keys and known_hosts
// come from its Host entry or from the ProxyCommand's options, and the host's password, key and pin are never used for it. The policy for
// first keys and wsu_ssh_known_hosts_file hold for bastions too; ~/.ssh/known_hosts is read besides.
//
// # Host keys
//
// Beyond OpenSSH's own rules: a host of which a key is known must show that key, and not one of another kind; a host for which an authority is
// known (@cert-authority) must show its certificate or a known key, so that accept-new cannot be used to go around the authority; a revoked
// key is revoked for every name.
package ssh
