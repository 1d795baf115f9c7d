/*
 * The configuration of services beyond what Wine 8 knows: dependencies once changed, and levels 2 to 6 of ChangeServiceConfig2W. All of it
 * lies in the registry under the names, and in the form, that Windows uses.
 */
#include "services.h"

static DWORD get_number(HKEY key, const WCHAR *name)
{
    DWORD number = 0, size = sizeof(number);
    return RegQueryValueExW(key, name, NULL, NULL, (BYTE *)&number, &size) ? 0 : number;
}

static void set_number(HKEY key, const WCHAR *name, DWORD number)
{
    RegSetValueExW(key, name, 0, REG_DWORD, (BYTE *)&number, sizeof(number));
}

/* NULL leaves a text as it is, an empty one removes it. */
static void set_text(HKEY key, const WCHAR *name, const WCHAR *text)
{
    if (!text) return;
    if (*text) RegSetValueExW(key, name, 0, REG_SZ, (BYTE *)text, (lstrlenW(text) + 1) * sizeof(WCHAR));
    else RegDeleteValueW(key, name);
}

/* The size in bytes of a list of texts that ends with an empty one. */
static DWORD list_size(const WCHAR *list)
{
    const WCHAR *at = list;
    while (*at) at += lstrlenW(at) + 1;
    return (DWORD)((at - list + 1) * sizeof(WCHAR));
}

static void set_list(HKEY key, const WCHAR *name, const WCHAR *list)
{
    if (!list) return;
    if (*list) RegSetValueExW(key, name, 0, REG_MULTI_SZ, (BYTE *)list, list_size(list));
    else RegDeleteValueW(key, name);
}

/* FailureActions in the registry: five numbers, of which these are used, and a pair for each action. */
enum { RESET_PERIOD, REBOOT_MESSAGE, COMMAND, ACTIONS, OFFSET, HEAD };

static void set_failure_actions(HKEY key, const SERVICE_FAILURE_ACTIONSW *actions)
{
    DWORD i, *stored, size;
    set_text(key, L"RebootMessage", actions->lpRebootMsg);
    set_text(key, L"FailureCommand", actions->lpCommand);
    if (!actions->lpsaActions) return;
    if (!actions->cActions) {
        RegDeleteValueW(key, L"FailureActions");
        return;
    }
    size = (HEAD + 2 * actions->cActions) * sizeof(DWORD);
    stored = allocate(size);
    stored[RESET_PERIOD] = actions->dwResetPeriod;
    stored[ACTIONS] = actions->cActions;
    stored[OFFSET] = HEAD * sizeof(DWORD);
    for (i = 0; i < actions->cActions; i++) {
        stored[HEAD + 2 * i] = actions->lpsaActions[i].Type;
        stored[HEAD + 2 * i + 1] = actions->lpsaActions[i].Delay;
    }
    RegSetValueExW(key, L"FailureActions", 0, REG_BINARY, (BYTE *)stored, size);
    release(stored);
}

/*
 * Wine's service manager keeps the dependencies that it read at its own start, ignores changed ones, and writes its own back whenever
 * another part of the configuration changes: so they are written again after every change. NULL means those that there were before.
 */
static void set_dependencies(HKEY key, const WCHAR *dependencies, const WCHAR *before)
{
    set_list(key, L"DependOnService", dependencies ? dependencies : before ? before : L"");
}

static BOOL (WINAPI *wine_ChangeServiceConfig2W)(SC_HANDLE, DWORD, void *);
static BOOL WINAPI windows_ChangeServiceConfig2W(SC_HANDLE service, DWORD level, void *info)
{
    HKEY key = service_key(service, KEY_ALL_ACCESS);
    WCHAR *before;
    BOOL changed = TRUE;
    if (!key) return FALSE;
    before = registry_text(key, L"DependOnService", NULL);
    switch (level) {
    case SERVICE_CONFIG_FAILURE_ACTIONS: set_failure_actions(key, info); break;
    case SERVICE_CONFIG_DELAYED_AUTO_START_INFO: set_number(key, L"DelayedAutoStart", *(BOOL *)info != FALSE); break;
    case SERVICE_CONFIG_FAILURE_ACTIONS_FLAG: set_number(key, L"FailureActionsOnNonCrashFailures", *(BOOL *)info != FALSE); break;
    case SERVICE_CONFIG_SERVICE_SID_INFO: set_number(key, L"ServiceSidType", *(DWORD *)info); break;
    case SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO: set_list(key, L"RequiredPrivileges", *(WCHAR **)info); break;
    default: changed = wine_ChangeServiceConfig2W(service, level, info);
    }
    set_dependencies(key, NULL, before);
    release(before);
    RegCloseKey(key);
    return changed;
}

/* The query functions return how many bytes they need and write if there are so many. */
static DWORD query_failure_actions(HKEY key, BYTE *buffer, DWORD size)
{
    SERVICE_FAILURE_ACTIONSW *actions = (SERVICE_FAILURE_ACTIONSW *)buffer;
    WCHAR *message = registry_text(key, L"RebootMessage", NULL), *command = registry_text(key, L"FailureCommand", NULL), *text;
    DWORD bytes = 0, count = 0, needed, i;
    DWORD *stored = (DWORD *)registry_text(key, L"FailureActions", &bytes);
    if (stored && bytes >= HEAD * sizeof(DWORD)) count = stored[ACTIONS];
    if (count > (bytes / sizeof(DWORD) - HEAD) / 2) count = 0;
    needed = sizeof(*actions) + count * sizeof(SC_ACTION) + (message ? list_size(message) : 0) + (command ? list_size(command) : 0);
    if (size >= needed) {
        memset(buffer, 0, needed);
        if (count) {
            actions->dwResetPeriod = stored[RESET_PERIOD];
            actions->cActions = count;
            actions->lpsaActions = (SC_ACTION *)(actions + 1);
        }
        for (i = 0; i < count; i++) {
            actions->lpsaActions[i].Type = stored[HEAD + 2 * i];
            actions->lpsaActions[i].Delay = stored[HEAD + 2 * i + 1];
        }
        text = (WCHAR *)((SC_ACTION *)(actions + 1) + count);
        if (message) actions->lpRebootMsg = lstrcpyW(text, message), text += lstrlenW(text) + 1;
        if (command) actions->lpCommand = lstrcpyW(text, command);
    }
    release(message);
    release(command);
    release(stored);
    return needed;
}

static DWORD query_privileges(HKEY key, BYTE *buffer, DWORD size)
{
    WCHAR *list = registry_text(key, L"RequiredPrivileges", NULL);
    DWORD bytes = list && *list ? list_size(list) : 0, needed = sizeof(WCHAR *) + bytes;
    if (size >= needed) {
        *(WCHAR **)buffer = bytes ? (WCHAR *)(buffer + sizeof(WCHAR *)) : NULL;
        memcpy(buffer + sizeof(WCHAR *), list, bytes);
    }
    release(list);
    return needed;
}

static DWORD query_number(HKEY key, const WCHAR *name, BYTE *buffer, DWORD size)
{
    DWORD number = get_number(key, name);
    if (size >= sizeof(number)) memcpy(buffer, &number, sizeof(number));
    return sizeof(number);
}

static BOOL (WINAPI *wine_QueryServiceConfig2W)(SC_HANDLE, DWORD, BYTE *, DWORD, DWORD *);
static BOOL WINAPI windows_QueryServiceConfig2W(SC_HANDLE service, DWORD level, BYTE *buffer, DWORD size, DWORD *needed)
{
    DWORD bytes = 0;
    HKEY key;
    if (level < SERVICE_CONFIG_FAILURE_ACTIONS || level > SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO)
        return wine_QueryServiceConfig2W(service, level, buffer, size, needed);
    if (!(key = service_key(service, KEY_READ))) return FALSE;
    switch (level) {
    case SERVICE_CONFIG_FAILURE_ACTIONS: bytes = query_failure_actions(key, buffer, size); break;
    case SERVICE_CONFIG_DELAYED_AUTO_START_INFO: bytes = query_number(key, L"DelayedAutoStart", buffer, size); break;
    case SERVICE_CONFIG_FAILURE_ACTIONS_FLAG: bytes = query_number(key, L"FailureActionsOnNonCrashFailures", buffer, size); break;
    case SERVICE_CONFIG_SERVICE_SID_INFO: bytes = query_number(key, L"ServiceSidType", buffer, size); break;
    case SERVICE_CONFIG_REQUIRED_PRIVILEGES_INFO: bytes = query_privileges(key, buffer, size); break;
    }
    RegCloseKey(key);
    if (needed) *needed = bytes;
    if (size >= bytes) return TRUE;
    SetLastError(ERROR_INSUFFICIENT_BUFFER);
    return FALSE;
}

static BOOL (WINAPI *wine_ChangeServiceConfigW)(SC_HANDLE, DWORD, DWORD, DWORD, LPCWSTR, LPCWSTR, LPDWORD, LPCWSTR, LPCWSTR, LPCWSTR, LPCWSTR);
static BOOL WINAPI windows_ChangeServiceConfigW(SC_HANDLE service, DWORD type, DWORD start, DWORD error, LPCWSTR path, LPCWSTR group,
                                                LPDWORD tag, LPCWSTR dependencies, LPCWSTR account, LPCWSTR password, LPCWSTR display)
{
    HKEY key = service_key(service, KEY_ALL_ACCESS);
    WCHAR *before = registry_text(key, L"DependOnService", NULL);
    BOOL changed = wine_ChangeServiceConfigW(service, type, start, error, path, group, tag, NULL, account, password, display);
    DWORD last = GetLastError();
    if (key) set_dependencies(key, changed ? dependencies : NULL, before);
    release(before);
    if (key) RegCloseKey(key);
    SetLastError(last);
    return changed;
}

/* Wine's QueryServiceConfigW never tells dependencies: they are put behind what it tells. */
static BOOL (WINAPI *wine_QueryServiceConfigW)(SC_HANDLE, QUERY_SERVICE_CONFIGW *, DWORD, DWORD *);
static BOOL WINAPI windows_QueryServiceConfigW(SC_HANDLE service, QUERY_SERVICE_CONFIGW *buffer, DWORD size, DWORD *needed)
{
    HKEY key = service_key(service, KEY_READ);
    WCHAR *list = registry_text(key, L"DependOnService", NULL);
    DWORD bytes = list && *list ? list_size(list) : 0, own = 0;
    BOOL told = FALSE;
    if (key) RegCloseKey(key);
    if (!wine_QueryServiceConfigW(service, NULL, 0, &own) && GetLastError() != ERROR_INSUFFICIENT_BUFFER) {
        release(list);
        return FALSE;
    }
    own = (own + sizeof(WCHAR *) - 1) & ~(sizeof(WCHAR *) - 1);
    if (size < own + bytes) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
    } else if ((told = wine_QueryServiceConfigW(service, buffer, own, needed)) && bytes) {
        buffer->lpDependencies = memcpy((BYTE *)buffer + own, list, bytes);
    }
    *needed = own + bytes;
    release(list);
    return told;
}

void replace_service_configuration(HMODULE advapi32)
{
    REPLACE(advapi32, ChangeServiceConfig2W);
    REPLACE(advapi32, QueryServiceConfig2W);
    REPLACE(advapi32, ChangeServiceConfigW);
    REPLACE(advapi32, QueryServiceConfigW);
}
