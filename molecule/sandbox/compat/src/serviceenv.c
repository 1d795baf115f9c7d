/*
 * A service's own environment: the value Environment under its key is added to its process by Windows' service manager and not by Wine's.
 * So the process of a service, known by its parent and its command line, adds it itself, before the Go runtime reads the environment.
 */
#include "services.h"
#include <winternl.h>

static DWORD parent_of_this(void)
{
    PROCESS_BASIC_INFORMATION info;
    if (NtQueryInformationProcess(GetCurrentProcess(), ProcessBasicInformation, &info, sizeof(info), NULL)) return 0;
    return (DWORD)(ULONG_PTR)info.InheritedFromUniqueProcessId;
}

static BOOL started_by_service_manager(void)
{
    static const WCHAR manager[] = L"\\services.exe";
    WCHAR path[MAX_PATH];
    DWORD length = ARRAY_SIZE(path);
    HANDLE parent = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, parent_of_this());
    BOOL known = parent && QueryFullProcessImageNameW(parent, 0, path, &length);
    if (parent) CloseHandle(parent);
    return known && length >= ARRAY_SIZE(manager) - 1 && !lstrcmpiW(path + length - (ARRAY_SIZE(manager) - 1), manager);
}

static BOOL is_command_of(HKEY key)
{
    WCHAR *image = registry_text(key, L"ImagePath", NULL), *expanded;
    DWORD length;
    BOOL same;
    if (!image) return FALSE;
    length = ExpandEnvironmentStringsW(image, NULL, 0);
    expanded = allocate((length + 1) * sizeof(WCHAR));
    ExpandEnvironmentStringsW(image, expanded, length);
    same = !lstrcmpiW(expanded, GetCommandLineW());
    release(image);
    release(expanded);
    return same;
}

/* Each entry of the list is NAME=VALUE. */
static void set_all(WCHAR *list)
{
    WCHAR *entry, *equals, *next;
    for (entry = list; *entry; entry = next) {
        next = entry + lstrlenW(entry) + 1;
        for (equals = entry + 1; *equals && *equals != '='; equals++) {}
        if (!*equals) continue;
        *equals = 0;
        SetEnvironmentVariableW(entry, equals + 1);
    }
}

void give_service_environment(void)
{
    WCHAR name[256], *environment;
    HKEY root, key;
    DWORD i;
    if (!started_by_service_manager()) return;
    if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, L"SYSTEM\\CurrentControlSet\\Services", 0, KEY_READ, &root)) return;
    for (i = 0; !RegEnumKeyW(root, i, name, ARRAY_SIZE(name)); i++) {
        if (!(key = service_key_named(name, KEY_READ))) continue;
        if ((environment = registry_text(key, L"Environment", NULL)) && is_command_of(key)) set_all(environment);
        release(environment);
        RegCloseKey(key);
    }
    RegCloseKey(root);
}
