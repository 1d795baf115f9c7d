"""The limits of WinRM on a Windows Server 2022 that nobody configured (`winrm get winrm/config`)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    envelope: int = 500 * 1024  # MaxEnvelopeSizekb
    least_envelope: int = 8192  # DSP0226 6.2: a client that takes less is refused
    operation_timeout: float = 60.0  # MaxTimeoutms
    shells: int = 30  # MaxShellsPerUser
    processes: int = 25  # MaxProcessesPerShell
    operations: int = 1500  # MaxConcurrentOperationsPerUser
    connections: int = 300  # MaxConnections
    idle_timeout: float = 7200.0  # of a shell that asks for none
    least_idle_timeout: float = 60.0  # a shorter one has no effect
    connection_idle: float = 120.0  # HTTP.sys closes a silent connection
