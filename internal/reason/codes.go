package reason

//go:generate go run ./gen -o ../../docs/reasons.md

// Code is a stable name of a kind of failure. Codes are never renamed; docs/reasons.md is generated from this file.
type Code string

// The codes, by where the failure lies.
const (
	KubeconfigMissing    Code = "kubeconfig_missing"
	KubeconfigInvalid    Code = "kubeconfig_invalid"
	APIUnreachable       Code = "api_unreachable"
	APIUntrusted         Code = "api_untrusted"
	APIForbidden         Code = "api_forbidden"
	NoHosts              Code = "no_hosts"
	VariableUnknown      Code = "variable_unknown"
	AnsibleTooOld        Code = "ansible_too_old"
	ArgumentInvalid      Code = "argument_invalid"
	ClusterUnsupported   Code = "cluster_unsupported"
	HybridOverlayMissing Code = "hybrid_overlay_missing"
	IgnitionUnavailable  Code = "ignition_unavailable"
	IgnitionInvalid      Code = "ignition_invalid"
	ReleaseInvalid       Code = "release_invalid"
	PayloadUnavailable   Code = "payload_unavailable"
	PayloadChecksum      Code = "payload_checksum"
	VersionSkew          Code = "version_skew"
	NodeNameDuplicate    Code = "node_name_duplicate"
	HostUnreachable      Code = "host_unreachable"
	HostKeyUnknown       Code = "host_key_unknown"
	HostKeyMismatch      Code = "host_key_mismatch"
	AuthFailed           Code = "auth_failed"
	ConnectionLost       Code = "connection_lost"
	QuotaExceeded        Code = "quota_exceeded"
	NotWindows           Code = "not_windows"
	HostOutputInvalid    Code = "host_output_invalid"
	WindowsUnsupported   Code = "windows_unsupported"
	NotElevated          Code = "not_elevated"
	NodeNameInvalid      Code = "node_name_invalid"
	RuntimeMissing       Code = "runtime_missing"
	RuntimeUnsupported   Code = "runtime_unsupported"
	ForeignKubelet       Code = "foreign_kubelet"
	ForeignNode          Code = "foreign_node"
	DiskFull             Code = "disk_full"
	PendingReboot        Code = "pending_reboot"
	PortInUse            Code = "port_in_use"
	NetworkUnsuitable    Code = "network_unsuitable"
	DNSFailed            Code = "dns_failed"
	ClockSkew            Code = "clock_skew"
	AccessDenied         Code = "access_denied"
	FileLocked           Code = "file_locked"
	TransferChecksum     Code = "transfer_checksum"
	TransferBusy         Code = "transfer_busy"
	ProtocolUnsupported  Code = "protocol_unsupported"
	SpecInvalid          Code = "spec_invalid"
	FileMissing          Code = "file_missing"
	EnrollFailed         Code = "enroll_failed"
	CSRMissing           Code = "csr_missing"
	CSRRefused           Code = "csr_refused"
	CertificateNotIssued Code = "certificate_not_issued"
	ServiceFailed        Code = "service_failed"
	KubeletUnhealthy     Code = "kubelet_unhealthy"
	NodeNotRegistered    Code = "node_not_registered"
	NodeNotReady         Code = "node_not_ready"
	StateUnreadable      Code = "state_unreadable"
	ApplyFailed          Code = "apply_failed"
	RollbackUnavailable  Code = "rollback_unavailable"
	NodeBusy             Code = "node_busy"
	DrainBlocked         Code = "drain_blocked"
	DowngradeRefused     Code = "downgrade_refused"
	HookFailed           Code = "hook_failed"
	Drifted              Code = "drifted"
	Timeout              Code = "timeout"
	Interrupted          Code = "interrupted"
	Internal             Code = "internal"
)

// Entry explains a code.
type Entry struct {
	Code Code
	// Where says whose side the failure is on.
	Where string
	// Meaning says what happened, in general.
	Meaning string
	// Remedy says what to do, in general; an Error may say it more exactly.
	Remedy string
}

// Table holds every code, in the order of the documentation.
var Table = []Entry{
	{KubeconfigMissing, "control host", "no kubeconfig was found or it cannot be read", "Set openshift_kubeconfig_path to a kubeconfig of a cluster administrator."},
	{KubeconfigInvalid, "control host", "the kubeconfig is not a valid kubeconfig", "Check the file with `kubectl --kubeconfig FILE config view`."},
	{APIUnreachable, "control host or host", "the API server did not answer", "Check the address, the route and the firewall to the API server."},
	{APIUntrusted, "control host or host", "the API server's certificate is not signed by the expected authority", "Use the kubeconfig of this cluster; do not turn verification off."},
	{APIForbidden, "control host", "the cluster refused what this feature needs", "Grant the permission that the message names."},
	{NoHosts, "control host", "no Windows host is in the groups", "Put the hosts into [new_workers] or [workers], and the Windows ones of them into [windows]."},
	{VariableUnknown, "control host", "a wsu_ variable does not exist", "Correct the name; docs/variables.md lists all of them."},
	{AnsibleTooOld, "control host", "ansible-core is too old", "Install ansible-core 2.16 or later."},
	{ArgumentInvalid, "any", "an argument is missing, unknown or has a wrong value", "Correct the argument that the message names."},
	{ClusterUnsupported, "cluster", "the cluster cannot take Windows nodes", "See the message for what is missing."},
	{HybridOverlayMissing, "cluster", "OVN-Kubernetes' hybrid overlay network is not enabled", "Enable spec.defaultNetwork.ovnKubernetesConfig.hybridOverlayConfig in network.operator.openshift.io/cluster."},
	{IgnitionUnavailable, "cluster", "the worker Ignition could not be read", "Check the permissions that the message names, or give wsu_ignition_file."},
	{IgnitionInvalid, "cluster or host", "the Ignition is malformed, truncated, empty or not a worker's", "Give the worker Ignition of this cluster."},
	{ReleaseInvalid, "control host", "release.yml is missing or wrong", "Install the release again."},
	{PayloadUnavailable, "control host", "a file of the payload could not be fetched", "Check wsu_payload_url, or use a folder with the release's files."},
	{PayloadChecksum, "control host", "a file of the payload is not the one that release.yml names", "Fetch the file again from a source that you trust; nothing was kept."},
	{VersionSkew, "control host", "the kubelet's version does not fit the API server's", "Use the release that fits the cluster's Kubernetes version."},
	{NodeNameDuplicate, "inventory", "two hosts have one node name", "Give each machine a host name of its own."},
	{HostUnreachable, "connection", "the host did not answer", "Check that the machine is up, its address in the inventory and its firewall."},
	{HostKeyUnknown, "connection", "the host's key is not known", "Compare the fingerprint with the machine's own and add it to known_hosts, or set wsu_ssh_host_key_policy=accept-new for the first contact."},
	{HostKeyMismatch, "connection", "the host's key is another one than the known one", "Find out why before anything else: this is what an attack looks like. If the machine was reinstalled, remove its old key."},
	{AuthFailed, "connection", "the host refused the login", "Check ansible_user, ansible_password, ansible_ssh_private_key_file and ansible_winrm_transport."},
	{ConnectionLost, "connection", "the connection broke off", "Run the playbook again; it goes on where it stopped."},
	{QuotaExceeded, "connection", "a limit of the host's WinRM service is used up", "Wait until other sessions of the account have ended, or raise the limit: winrm get winrm/config/winrs."},
	{NotWindows, "host", "the host is not a Windows machine", "Take the host out of [windows]."},
	{HostOutputInvalid, "host", "what the host answered is not what wmcb answers", "Look at the quoted output; something else may print on the session."},
	{WindowsUnsupported, "host", "this Windows build is not supported", "Use Windows Server 2019 (17763), 2022 (20348) or 2025 (26100) on x86-64."},
	{NotElevated, "host", "the account has no administrator's rights", "Log in with a member of Administrators."},
	{NodeNameInvalid, "host", "the host name cannot be a node name", "Rename the machine: lower-case letters, digits and hyphens, at most 63 characters."},
	{RuntimeMissing, "host", "no container runtime was found", "Install containerd as a Windows service."},
	{RuntimeUnsupported, "host", "the container runtime cannot serve a kubelet", "Use containerd; Docker is not supported by Kubernetes since 1.24."},
	{ForeignKubelet, "host", "a kubelet of another tool is installed", "Remove it with the tool that installed it."},
	{ForeignNode, "host", "the node belongs to another tool or another machine", "Rename the machine, or remove the node that has its name."},
	{DiskFull, "host", "not enough free space", "Free the space that the message names."},
	{PendingReboot, "host", "Windows waits for a reboot", "Reboot the machine."},
	{PortInUse, "host", "a port that the node needs is taken", "Stop the process that holds it."},
	{NetworkUnsuitable, "host", "no usable address was found", "Give the host a default route, or name the address with wsu_node_ip."},
	{DNSFailed, "host", "a name could not be resolved", "Correct the DNS servers of the machine."},
	{ClockSkew, "host", "the clock differs from the cluster's", "Synchronise the machine's time."},
	{AccessDenied, "host", "Windows denied the access", "Check the rights of the account and whether a security product interferes."},
	{FileLocked, "host", "a file is held open by another process", "Stop the process, or exclude the folder from the scanner."},
	{TransferChecksum, "transfer", "the content that arrived is not the content that was sent", "Run the playbook again; if it repeats, check the line and the disk."},
	{TransferBusy, "transfer", "another transfer to this host is under way", "Wait for it to end."},
	{ProtocolUnsupported, "transfer", "wmcb on the host speaks another version of the protocol", "Run the playbook of one release only."},
	{SpecInvalid, "host", "the node specification is wrong", "Correct the field that the message names."},
	{FileMissing, "host", "a file that the specification names is not on the host", "Transfer the release's files first."},
	{EnrollFailed, "join", "the node's certificate request could not be made", "See the message."},
	{CSRMissing, "join", "no certificate request arrived", "See the kubelet's log."},
	{CSRRefused, "join", "the certificate request breaks a rule", "See which rule; approve nothing by hand before you know why."},
	{CertificateNotIssued, "join", "the request was approved but no certificate was issued", "Check the cluster's signer."},
	{ServiceFailed, "join", "a Windows service did not start or stop", "See the service's log lines."},
	{KubeletUnhealthy, "join", "the kubelet does not become healthy", "See the kubelet's log lines."},
	{NodeNotRegistered, "join", "the node did not appear in the cluster", "See the kubelet's log lines."},
	{NodeNotReady, "join", "the node is registered but not Ready", "See the condition's message."},
	{StateUnreadable, "host", "wmcb's state was written by a newer release or is damaged", "Use the newer release, or remove the node and join it again."},
	{ApplyFailed, "host", "a step of apply failed and was undone", "See the step's message."},
	{RollbackUnavailable, "host", "no release before the present one is kept", "Run the playbook of the release that the machine shall have."},
	{NodeBusy, "host", "another wmcb is changing the machine", "Wait for it to end, then run it again."},
	{DrainBlocked, "cluster", "pods could not be evicted", "See the pods that the message names."},
	{DowngradeRefused, "inventory", "hosts run a newer release, and a downgrade was not allowed", "Use the newer release's playbooks, or set wsu_allow_downgrade to true."},
	{HookFailed, "control host", "a task of a hook failed", "See the hook's own message; docs/hooks.md says what state the host is in."},
	{Drifted, "host or cluster", "a node is not as it was made", "See the differences; scaleup.yml puts them right."},
	{Timeout, "any", "it took longer than allowed", "Raise the time limit that the message names, or find out what is slow."},
	{Interrupted, "any", "it was interrupted", "Run it again; it goes on where it stopped."},
	{Internal, "any", "an error that nobody foresaw", "Report it with the message and the support archive."},
}

// Remedy gives the general remedy of a code, or "" for one that is not in the table.
func (c Code) Remedy() string {
	for _, e := range Table {
		if e.Code == c {
			return e.Remedy
		}
	}
	return ""
}

// Known reports whether the table has the code: what a host says may be anything.
func (c Code) Known() bool {
	for _, e := range Table {
		if e.Code == c {
			return true
		}
	}
	return false
}
