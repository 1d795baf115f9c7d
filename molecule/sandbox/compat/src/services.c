/*
 * The service manager: Wine's keeps dependencies in the registry and forgets them otherwise, and goes on calling a service running whose
 * process has died. Recovery actions are stored and shown (serviceconfig.c) but nobody runs them.
 */
#include "services.h"

/* How long a service that others depend on may take to start. */
#define DEPENDENCY_POLLS 300
#define DEPENDENCY_POLL_MS 100

struct open_service { SC_HANDLE handle; WCHAR *name; struct open_service *next; };

static struct open_service *services;
static SRWLOCK lock = SRWLOCK_INIT;

static SC_HANDLE remember(SC_HANDLE handle, const WCHAR *name)
{
    DWORD error = GetLastError();
    struct open_service *service;
    if (!handle) return handle;
    service = allocate(sizeof(*service));
    service->handle = handle;
    service->name = duplicate(name);
    AcquireSRWLockExclusive(&lock);
    service->next = services;
    services = service;
    ReleaseSRWLockExclusive(&lock);
    SetLastError(error);
    return handle;
}

static void forget(SC_HANDLE handle)
{
    struct open_service **at, *service = NULL;
    AcquireSRWLockExclusive(&lock);
    for (at = &services; *at && (*at)->handle != handle; at = &(*at)->next) {}
    if (*at) {
        service = *at;
        *at = service->next;
    }
    ReleaseSRWLockExclusive(&lock);
    if (service) release(service->name);
    release(service);
}

WCHAR *service_name(SC_HANDLE handle)
{
    struct open_service *service;
    WCHAR *name = NULL;
    AcquireSRWLockShared(&lock);
    for (service = services; service && service->handle != handle; service = service->next) {}
    if (service) name = duplicate(service->name);
    ReleaseSRWLockShared(&lock);
    return name;
}

HKEY service_key_named(const WCHAR *name, REGSAM access)
{
    static const WCHAR root[] = L"SYSTEM\\CurrentControlSet\\Services\\";
    WCHAR *path = allocate(sizeof(root) + lstrlenW(name) * sizeof(WCHAR));
    HKEY key = NULL;
    LONG error;
    lstrcpyW(path, root);
    lstrcatW(path, name);
    error = RegOpenKeyExW(HKEY_LOCAL_MACHINE, path, 0, access, &key);
    release(path);
    if (error) SetLastError(error);
    return error ? NULL : key;
}

HKEY service_key(SC_HANDLE handle, REGSAM access)
{
    WCHAR *name = service_name(handle);
    HKEY key;
    if (!name) {
        SetLastError(ERROR_INVALID_HANDLE);
        return NULL;
    }
    key = service_key_named(name, access);
    release(name);
    return key;
}

static SC_HANDLE (WINAPI *wine_OpenServiceW)(SC_HANDLE, LPCWSTR, DWORD);
static SC_HANDLE WINAPI windows_OpenServiceW(SC_HANDLE manager, LPCWSTR name, DWORD access)
{
    return remember(wine_OpenServiceW(manager, name, access), name);
}

static SC_HANDLE (WINAPI *wine_CreateServiceW)(SC_HANDLE, LPCWSTR, LPCWSTR, DWORD, DWORD, DWORD, DWORD, LPCWSTR, LPCWSTR, LPDWORD, LPCWSTR,
                                               LPCWSTR, LPCWSTR);
static SC_HANDLE WINAPI windows_CreateServiceW(SC_HANDLE manager, LPCWSTR name, LPCWSTR display, DWORD access, DWORD type, DWORD start,
                                               DWORD error, LPCWSTR path, LPCWSTR group, LPDWORD tag, LPCWSTR dependencies, LPCWSTR account,
                                               LPCWSTR password)
{
    return remember(wine_CreateServiceW(manager, name, display, access, type, start, error, path, group, tag, dependencies, account,
                                        password), name);
}

static BOOL (WINAPI *wine_CloseServiceHandle)(SC_HANDLE);
static BOOL WINAPI windows_CloseServiceHandle(SC_HANDLE handle)
{
    forget(handle);
    return wine_CloseServiceHandle(handle);
}

/* A service whose process has died is stopped, with the exit code that Windows gives it. */
static BOOL has_died(DWORD state, DWORD id)
{
    HANDLE process;
    BOOL died;
    if (state == SERVICE_STOPPED || !id) return FALSE;
    if (!(process = OpenProcess(SYNCHRONIZE, FALSE, id))) return GetLastError() == ERROR_INVALID_PARAMETER;
    died = WaitForSingleObject(process, 0) == WAIT_OBJECT_0;
    CloseHandle(process);
    return died;
}

static BOOL (WINAPI *wine_QueryServiceStatusEx)(SC_HANDLE, SC_STATUS_TYPE, BYTE *, DWORD, DWORD *);
static BOOL WINAPI windows_QueryServiceStatusEx(SC_HANDLE service, SC_STATUS_TYPE type, BYTE *buffer, DWORD size, DWORD *needed)
{
    SERVICE_STATUS_PROCESS *status = (SERVICE_STATUS_PROCESS *)buffer;
    if (!wine_QueryServiceStatusEx(service, type, buffer, size, needed)) return FALSE;
    if (!has_died(status->dwCurrentState, status->dwProcessId)) return TRUE;
    status->dwCurrentState = SERVICE_STOPPED;
    status->dwControlsAccepted = 0;
    status->dwWin32ExitCode = ERROR_PROCESS_ABORTED;
    status->dwCheckPoint = status->dwWaitHint = status->dwProcessId = 0;
    return TRUE;
}

/* A state; 0 if it cannot be asked for. */
static DWORD state_of(SC_HANDLE service, SERVICE_STATUS_PROCESS *status)
{
    DWORD needed;
    if (!windows_QueryServiceStatusEx(service, SC_STATUS_PROCESS_INFO, (BYTE *)status, sizeof(*status), &needed)) return 0;
    return status->dwCurrentState;
}

static BOOL (WINAPI *wine_QueryServiceStatus)(SC_HANDLE, SERVICE_STATUS *);
static BOOL WINAPI windows_QueryServiceStatus(SC_HANDLE service, SERVICE_STATUS *status)
{
    SERVICE_STATUS_PROCESS full;
    if (!state_of(service, &full)) return FALSE;
    memcpy(status, &full, sizeof(*status)); /* the one begins with the other */
    return TRUE;
}

static BOOL WINAPI windows_StartServiceW(SC_HANDLE service, DWORD count, LPCWSTR *arguments);

static DWORD start_dependency(SC_HANDLE manager, const WCHAR *name)
{
    SC_HANDLE service = windows_OpenServiceW(manager, name, SERVICE_START | SERVICE_QUERY_STATUS | SERVICE_QUERY_CONFIG);
    SERVICE_STATUS_PROCESS status;
    DWORD error = ERROR_SERVICE_DEPENDENCY_FAIL, state;
    int i;
    if (!service) return ERROR_SERVICE_DEPENDENCY_DELETED;
    if (state_of(service, &status) != SERVICE_STOPPED || windows_StartServiceW(service, 0, NULL)) {
        for (i = 0; i < DEPENDENCY_POLLS; i++) {
            if ((state = state_of(service, &status)) == SERVICE_RUNNING) error = ERROR_SUCCESS;
            if (state == SERVICE_RUNNING || state == SERVICE_STOPPED) break;
            Sleep(DEPENDENCY_POLL_MS);
        }
    }
    windows_CloseServiceHandle(service);
    return error;
}

/* Windows starts what a service depends on, and refuses to start it where that is impossible (errors 1075 and 1068). */
static BOOL (WINAPI *wine_StartServiceW)(SC_HANDLE, DWORD, LPCWSTR *);
static BOOL WINAPI windows_StartServiceW(SC_HANDLE service, DWORD count, LPCWSTR *arguments)
{
    HKEY key = service_key(service, KEY_READ);
    WCHAR *names = registry_text(key, L"DependOnService", NULL), *name;
    SC_HANDLE manager = names ? OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT) : NULL;
    DWORD error = ERROR_SUCCESS;
    if (key) RegCloseKey(key);
    for (name = names; name && *name && !error; name += lstrlenW(name) + 1)
        if (*name != SC_GROUP_IDENTIFIERW) error = start_dependency(manager, name);
    if (manager) wine_CloseServiceHandle(manager);
    release(names);
    if (error) {
        SetLastError(error);
        return FALSE;
    }
    return wine_StartServiceW(service, count, arguments);
}

static BOOL depends(const WCHAR *name, const WCHAR *on)
{
    HKEY key = service_key_named(name, KEY_READ);
    WCHAR *names = registry_text(key, L"DependOnService", NULL), *each;
    BOOL found = FALSE;
    if (key) RegCloseKey(key);
    for (each = names; each && *each && !found; each += lstrlenW(each) + 1) found = !lstrcmpiW(each, on);
    release(names);
    return found;
}

struct dependent { WCHAR *name; SERVICE_STATUS status; struct dependent *next; };

static void release_dependents(struct dependent *list)
{
    while (list) {
        struct dependent *next = list->next;
        release(list->name);
        release(list);
        list = next;
    }
}

static struct dependent *status_of_dependent(SC_HANDLE manager, const WCHAR *name, DWORD which)
{
    SC_HANDLE service = wine_OpenServiceW(manager, name, SERVICE_QUERY_STATUS);
    SERVICE_STATUS_PROCESS status;
    struct dependent *found = NULL;
    DWORD state = service ? state_of(service, &status) : 0;
    if (service) wine_CloseServiceHandle(service);
    if (state && (which & (state == SERVICE_STOPPED ? SERVICE_INACTIVE : SERVICE_ACTIVE))) {
        found = allocate(sizeof(*found));
        found->name = duplicate(name);
        memcpy(&found->status, &status, sizeof(found->status));
    }
    return found;
}

/* The services that depend on `name` and are in one of the states `which`; release them. */
static struct dependent *dependents_of(const WCHAR *name, DWORD which)
{
    struct dependent *list = NULL, *found;
    SC_HANDLE manager;
    WCHAR other[256]; /* a service's name has at most that many characters, CreateServiceW */
    HKEY root;
    DWORD i;
    if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, L"SYSTEM\\CurrentControlSet\\Services", 0, KEY_READ, &root)) return NULL;
    manager = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT);
    for (i = 0; !RegEnumKeyW(root, i, other, ARRAY_SIZE(other)); i++) {
        if (!depends(other, name) || !(found = status_of_dependent(manager, other, which))) continue;
        found->next = list;
        list = found;
    }
    wine_CloseServiceHandle(manager);
    RegCloseKey(root);
    return list;
}

/* A stopped service takes no controls (1062), and one that others need cannot be stopped before them (1051). */
static BOOL (WINAPI *wine_ControlService)(SC_HANDLE, DWORD, SERVICE_STATUS *);
static BOOL WINAPI windows_ControlService(SC_HANDLE service, DWORD control, SERVICE_STATUS *status)
{
    SERVICE_STATUS_PROCESS full;
    struct dependent *dependents;
    WCHAR *name;
    if (state_of(service, &full) == SERVICE_STOPPED) {
        memcpy(status, &full, sizeof(*status));
        SetLastError(ERROR_SERVICE_NOT_ACTIVE);
        return FALSE;
    }
    if (control == SERVICE_CONTROL_STOP && (name = service_name(service))) {
        dependents = dependents_of(name, SERVICE_ACTIVE);
        release(name);
        if (dependents) {
            release_dependents(dependents);
            SetLastError(ERROR_DEPENDENT_SERVICES_RUNNING);
            return FALSE;
        }
    }
    return wine_ControlService(service, control, status);
}

static BOOL (WINAPI *wine_EnumDependentServicesW)(SC_HANDLE, DWORD, ENUM_SERVICE_STATUSW *, DWORD, DWORD *, DWORD *);
static BOOL WINAPI windows_EnumDependentServicesW(SC_HANDLE service, DWORD which, ENUM_SERVICE_STATUSW *buffer, DWORD size, DWORD *needed,
                                                  DWORD *count)
{
    WCHAR *name = service_name(service), *text;
    struct dependent *list, *each;
    DWORD entries = 0, bytes = 0, i = 0;
    if (!name) return wine_EnumDependentServicesW(service, which, buffer, size, needed, count);
    list = dependents_of(name, which);
    release(name);
    for (each = list; each; each = each->next, entries++)
        bytes += sizeof(*buffer) + (lstrlenW(each->name) + 1) * sizeof(WCHAR);
    *count = 0;
    *needed = bytes;
    if (size < bytes) {
        release_dependents(list);
        SetLastError(ERROR_MORE_DATA);
        return FALSE;
    }
    text = (WCHAR *)(buffer + entries);
    for (each = list; each; each = each->next, i++) {
        buffer[i].lpServiceName = buffer[i].lpDisplayName = lstrcpyW(text, each->name);
        buffer[i].ServiceStatus = each->status;
        text += lstrlenW(text) + 1;
    }
    *count = entries;
    release_dependents(list);
    return TRUE;
}

void replace_services(void)
{
    HMODULE advapi32 = LoadLibraryA("advapi32.dll");
    REPLACE(advapi32, OpenServiceW);
    REPLACE(advapi32, CreateServiceW);
    REPLACE(advapi32, CloseServiceHandle);
    REPLACE(advapi32, QueryServiceStatusEx);
    REPLACE(advapi32, QueryServiceStatus);
    REPLACE(advapi32, StartServiceW);
    REPLACE(advapi32, ControlService);
    REPLACE(advapi32, EnumDependentServicesW);
    replace_service_configuration(advapi32);
}
