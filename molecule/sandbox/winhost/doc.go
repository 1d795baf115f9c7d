// Package winhost makes Windows hosts out of Wine on a Linux machine: each one has namespaces, an address, a host name and a drive C: of
// its own, Windows services under Wine's service manager, and is reached through the real OpenSSH server.
//
// Prepare makes a base prefix once. A Host is then started on a bridge that the caller owns:
//
//	err := winhost.Prepare(ctx, winhost.PrepareConfig{BaseDir: ".sandbox/base", ModuleDir: "molecule/sandbox", Containerd: "build/containerd.exe"})
//	host := &winhost.Host{
//		Name: "winhost1", Address: netip.MustParsePrefix("10.88.0.11/16"), Gateway: netip.MustParseAddr("10.88.0.1"),
//		Bridge: "wsu0", Dir: ".sandbox/hosts/winhost1", BaseDir: ".sandbox/base",
//		AuthorizedKey: "ssh-ed25519 AAAA...", Password: "...", Hosts: map[string]netip.Addr{"api.example": ...},
//	}
//	err = host.Start(ctx)
//
// All methods of Host work from another process too: what runs is recorded in Dir (host.json), and a Host with the same Dir finds it.
//
// # One host by hand
//
// As root, from molecule/sandbox:
//
//	go run ./winhost/cmd/winhost up -containerd /path/to/containerd.exe      # prints how to reach it
//	ssh -i .winhost/id_ed25519 -o UserKnownHostsFile=.winhost/known_hosts Administrator@10.98.0.11 'echo %COMPUTERNAME% & ver'
//	scp -i .winhost/id_ed25519 -o UserKnownHostsFile=.winhost/known_hosts wmcb.exe Administrator@10.98.0.11:/C:/k/wmcb.exe
//	go run ./winhost/cmd/winhost status | reboot | powercut | freeze | thaw | cut | mend | fill | unfill
//	go run ./winhost/cmd/winhost exec cmd.exe /c ver                         # in the host's namespaces, without SSH
//	go run ./winhost/cmd/winhost down
//
// # What a host is
//
//   - Dir/disk.img is drive C: (ext4 in a sparse file, mounted in the host's namespaces alone); C:\windows is hard-linked from the base.
//     Host.Path gives the path from which the Linux side reads a file of a running host.
//   - Dir/log has init.log (boots and orders), boot.log (Wine's own), sshd.log, winrm.log.
//   - With Host.WinRM, WinRM listens on 5985 and 5986; etc/winrm-latency-ms in Dir, written at any time, delays each of its messages.
//   - C:\sandbox\refused.log holds every call of a tool that Wine only pretends to have (see programs/refuse): those calls fail.
//   - C:\sandbox\power: a program in the host that writes "reboot" or "shutdown" there gets it within a second.
//   - containerd: configuration, CNI configuration and logs under C:\ProgramData\containerd, program in C:\Program Files\containerd.
//
// # Tests
//
//	SANDBOX_CONTAINERD=/path/to/containerd.exe go test -tags sandbox ./winhost     # as root, 45 s; includes compat's tests, run in a host
//
// # Limits
//
//   - Every SSH user is uid 0, so nothing is ever "access denied" for lack of rights; file names are case-sensitive over SFTP.
//   - C:\windows is a file system of its own: a rename between it and the rest of C: fails, and Fill does not fill it.
//   - A service's recovery actions are stored and shown, but nobody runs them: a crashed service stays stopped until the next boot.
//   - At boot, services start in no particular order, whatever they depend on; the compatibility DLL starts dependencies first only where a
//     Go program starts a service.
//   - ExitWindowsEx does nothing; InitiateSystemShutdownExW and InitiateShutdownW reboot the host.
//   - GetExtendedTcpTable shows listening ports with process 0; connecting to AF_UNIX sockets is missing; accounts, firewall, certificate
//     store, PowerShell, HNS and junctions too.
package winhost
