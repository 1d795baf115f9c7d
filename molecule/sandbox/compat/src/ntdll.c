/* Processes, files and named pipes. */
#include "compat.h"
#include <winternl.h>

/*
 * os.RemoveAll and os.Root set FileDispositionInformationEx and FileRenameInformationEx. Where those are not supported, Go expects
 * STATUS_NOT_SUPPORTED or STATUS_INVALID_PARAMETER and goes another way; Wine 8 says STATUS_NOT_IMPLEMENTED.
 */
static NTSTATUS (WINAPI *wine_NtSetInformationFile)(HANDLE, IO_STATUS_BLOCK *, void *, ULONG, int);
static NTSTATUS WINAPI windows_NtSetInformationFile(HANDLE file, IO_STATUS_BLOCK *io, void *data, ULONG size, int class)
{
    NTSTATUS status = wine_NtSetInformationFile(file, io, data, size, class);
    return status == (NTSTATUS)0xC0000002 ? (NTSTATUS)0xC00000BB : status;
}

/* svc.IsWindowsService asks whether the parent process is services.exe in session 0; in Wine every process is in session 1. */
#define SYSTEM_PROCESSES 5

static NTSTATUS (WINAPI *wine_NtQuerySystemInformation)(int, void *, ULONG, ULONG *);
static NTSTATUS WINAPI windows_NtQuerySystemInformation(int class, void *data, ULONG size, ULONG *needed)
{
    static const WCHAR name[] = L"services.exe";
    NTSTATUS status = wine_NtQuerySystemInformation(class, data, size, needed);
    SYSTEM_PROCESS_INFORMATION *process = data;
    if (class != SYSTEM_PROCESSES || status) return status;
    for (;;) {
        if (process->ImageName.Buffer && process->ImageName.Length == sizeof(name) - sizeof(WCHAR) &&
            !_wcsnicmp(process->ImageName.Buffer, name, ARRAY_SIZE(name) - 1))
            process->SessionId = 0;
        if (!process->NextEntryOffset) return status;
        process = (SYSTEM_PROCESS_INFORMATION *)((BYTE *)process + process->NextEntryOffset);
    }
}

/*
 * go-winio (containerd's pipe) creates a first instance with no right to read or write, which holds the name and must never get a
 * client. On Windows it cannot be connected to. In Wine it would take the first client away: connect to it and leave, so that it is used.
 */
#define OPEN_SYNCHRONOUS 0x20 /* FILE_SYNCHRONOUS_IO_NONALERT */

static NTSTATUS (WINAPI *wine_NtCreateNamedPipeFile)(HANDLE *, ULONG, OBJECT_ATTRIBUTES *, IO_STATUS_BLOCK *, ULONG, ULONG, ULONG, ULONG,
                                                     ULONG, ULONG, ULONG, ULONG, ULONG, LARGE_INTEGER *);
static NTSTATUS WINAPI windows_NtCreateNamedPipeFile(HANDLE *pipe, ULONG access, OBJECT_ATTRIBUTES *attributes, IO_STATUS_BLOCK *io,
                                                     ULONG sharing, ULONG disposition, ULONG options, ULONG type, ULONG read_mode,
                                                     ULONG completion, ULONG instances, ULONG in, ULONG out, LARGE_INTEGER *timeout)
{
    const ULONG useful = GENERIC_READ | GENERIC_WRITE | FILE_READ_DATA | FILE_WRITE_DATA;
    NTSTATUS status = wine_NtCreateNamedPipeFile(pipe, access, attributes, io, sharing, disposition, options, type, read_mode, completion,
                                                 instances, in, out, timeout);
    if (!status && !(access & useful)) {
        OBJECT_ATTRIBUTES plain = *attributes;
        IO_STATUS_BLOCK ignored;
        HANDLE client;
        plain.SecurityDescriptor = NULL;
        if (!NtOpenFile(&client, GENERIC_READ | GENERIC_WRITE | SYNCHRONIZE, &plain, &ignored, FILE_SHARE_READ | FILE_SHARE_WRITE,
                        OPEN_SYNCHRONOUS))
            NtClose(client);
    }
    return status;
}

void replace_ntdll(void)
{
    HMODULE ntdll = GetModuleHandleA("ntdll.dll");
    REPLACE(ntdll, NtSetInformationFile);
    REPLACE(ntdll, NtQuerySystemInformation);
    REPLACE(ntdll, NtCreateNamedPipeFile);
}
