/*
 * Performance counters. The kubelet reads some (network, memory, processor) at its start and gives up where a query cannot be opened; Wine
 * 8 has none that it asks for. Every counter exists here, has one instance, "Ethernet", and stands still: metrics are not for the sandbox.
 */
#include "compat.h"

#define MORE_DATA 0x800007D2 /* PDH_MORE_DATA, pdhmsg.h */
#define STANDS_AT 42.0

struct value { DWORD status; double number; };      /* PDH_FMT_COUNTERVALUE */
struct item { LPWSTR name; struct value value; };   /* PDH_FMT_COUNTERVALUE_ITEM_W */

static LONG WINAPI open_query(LPCWSTR source, DWORD_PTR user, HANDLE *query) { *query = (HANDLE)1; return 0; }
static LONG WINAPI add_counter(HANDLE query, LPCWSTR path, DWORD_PTR user, HANDLE *counter) { *counter = (HANDLE)2; return 0; }
static LONG WINAPI collect(HANDLE query) { return 0; }

static LONG WINAPI formatted_array(HANDLE counter, DWORD format, DWORD *size, DWORD *count, struct item *items)
{
    static const WCHAR instance[] = L"Ethernet";
    const DWORD needed = sizeof(*items) + sizeof(instance);
    BOOL enough = items && *size >= needed;
    *size = needed;
    *count = 1;
    if (!enough) return (LONG)MORE_DATA;
    items->name = memcpy(items + 1, instance, sizeof(instance));
    items->value.status = 0;
    items->value.number = STANDS_AT;
    return 0;
}

void replace_performance_counters(void)
{
    HMODULE pdh = LoadLibraryA("pdh.dll");
    replace(pdh, "PdhOpenQuery", open_query);
    replace(pdh, "PdhOpenQueryW", open_query);
    replace(pdh, "PdhAddCounterW", add_counter);
    replace(pdh, "PdhAddEnglishCounterW", add_counter);
    replace(pdh, "PdhCollectQueryData", collect);
    replace(pdh, "PdhGetFormattedCounterArrayW", formatted_array);
}
