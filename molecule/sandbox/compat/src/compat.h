/*
 * The compatibility DLL. Wine loads it into every Go program as bcryptprimitives.dll, before the Go runtime looks up anything else. Go
 * finds Windows functions with GetProcAddress alone, so a changed entry in a DLL's export table is seen by Go and by nobody else: each
 * file here replaces functions of one subject by ones that answer as Windows does, and calls Wine's own for all that Wine does right.
 * On a real Windows, where ntdll has no wine_get_version, nothing is replaced.
 */
#ifndef COMPAT_H
#define COMPAT_H
#define WIN32_LEAN_AND_MEAN
#define _WIN32_WINNT 0x0A00
#include <winsock2.h>
#include <windows.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Makes GetProcAddress return `replacement` for the export `name` of `module`, and returns what it returned before. The process is ended
 * with a message if that is impossible: a host that behaves like Wine in one process and like Windows in another would be worse than none.
 * NULL, and nothing changed, if the module has no such export.
 */
void *replace(HMODULE module, const char *name, void *replacement);

/* Keeps Wine's own function in a variable called wine_NAME and puts windows_NAME in its place. */
#define REPLACE(module, name) (wine_##name = replace(module, #name, windows_##name))

void *allocate(SIZE_T size); /* zeroed; never fails: the process ends where memory does */
void release(void *memory);
WCHAR *duplicate(const WCHAR *text);

/* A registry value of any type as text, with two terminating zeros; NULL if absent. *bytes is the value's own size. Release it. */
WCHAR *registry_text(HKEY key, const WCHAR *name, DWORD *bytes);

void replace_ntdll(void);
void replace_winsock(void);
void replace_unix_sockets(HMODULE ws2_32);
void replace_services(void);
void replace_service_configuration(HMODULE advapi32);
void replace_security(void);
void replace_symbolic_links(void);
void replace_performance_counters(void);
void replace_shutdown(void);
void give_service_environment(void);

#endif
