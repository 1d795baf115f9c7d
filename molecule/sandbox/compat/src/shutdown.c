/*
 * Shutdown and restart. Wine ends its processes at best; the host's own power is the sandbox's. A line in C:\sandbox\power, the order and
 * the seconds until it holds, is what the host's first process obeys. (ExitWindowsEx is left out: user32 is loaded later than this DLL.)
 */
#include "compat.h"
#include <stdio.h>

static BOOL order(const char *what, DWORD seconds)
{
    char line[32];
    DWORD written;
    BOOL told;
    HANDLE file = CreateFileA("C:\\sandbox\\power.new", GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return FALSE;
    told = WriteFile(file, line, snprintf(line, sizeof(line), "%s %lu\n", what, seconds), &written, NULL);
    CloseHandle(file);
    return told && MoveFileExA("C:\\sandbox\\power.new", "C:\\sandbox\\power", MOVEFILE_REPLACE_EXISTING);
}

static BOOL WINAPI windows_InitiateSystemShutdownExW(LPWSTR machine, LPWSTR message, DWORD seconds, BOOL force, BOOL reboot, DWORD reason)
{
    return order(reboot ? "reboot" : "shutdown", seconds);
}

static DWORD WINAPI windows_InitiateShutdownW(LPWSTR machine, LPWSTR message, DWORD seconds, DWORD flags, DWORD reason)
{
    const DWORD restart = 0x4 | 0x80; /* SHUTDOWN_RESTART, SHUTDOWN_RESTARTAPPS */
    return order(flags & restart ? "reboot" : "shutdown", seconds) ? ERROR_SUCCESS : GetLastError();
}

void replace_shutdown(void)
{
    HMODULE advapi32 = LoadLibraryA("advapi32.dll");
    replace(advapi32, "InitiateSystemShutdownExW", windows_InitiateSystemShutdownExW);
    replace(advapi32, "InitiateShutdownW", windows_InitiateShutdownW);
}
