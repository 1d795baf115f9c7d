/* The export tables, what all subjects share, and the DLL's entry. */
#include "compat.h"
#include <stdio.h>

BOOLEAN WINAPI SystemFunction036(PVOID, ULONG); /* RtlGenRandom, advapi32 */

/* The one function that Windows' bcryptprimitives.dll is asked for by Go: random bytes. */
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
    while (size) {
        ULONG chunk = size > 0x10000000 ? 0x10000000 : (ULONG)size;
        if (!SystemFunction036(data, chunk)) return FALSE;
        data += chunk;
        size -= chunk;
    }
    return TRUE;
}

static void die(const char *what, const char *name)
{
    char line[256];
    DWORD written;
    int length = snprintf(line, sizeof(line), "compatibility dll: %s: %s\n", name, what);
    WriteFile(GetStdHandle(STD_ERROR_HANDLE), line, length, &written, NULL);
    TerminateProcess(GetCurrentProcess(), 254);
}

void *allocate(SIZE_T size)
{
    void *memory = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, size);
    if (!memory) die("out of memory", "allocate");
    return memory;
}

void release(void *memory)
{
    if (memory) HeapFree(GetProcessHeap(), 0, memory);
}

WCHAR *duplicate(const WCHAR *text)
{
    SIZE_T size = (lstrlenW(text) + 1) * sizeof(WCHAR);
    return memcpy(allocate(size), text, size);
}

WCHAR *registry_text(HKEY key, const WCHAR *name, DWORD *bytes)
{
    WCHAR *text;
    DWORD size = 0;
    if (!key || RegQueryValueExW(key, name, NULL, NULL, NULL, &size)) return NULL;
    text = allocate(size + 2 * sizeof(WCHAR));
    if (RegQueryValueExW(key, name, NULL, NULL, (BYTE *)text, &size)) {
        release(text);
        return NULL;
    }
    if (bytes) *bytes = size;
    return text;
}

/*
 * An export is a 32-bit offset from the module, so the way to a replacement leads over a jump that lies within 2 GiB behind it. One block
 * of such jumps serves a module.
 */
#define JUMP_SIZE 16
#define BLOCK_SIZE 0x10000
#define MODULES 16

static struct { BYTE *module, *next, *end; } blocks[MODULES];

static BYTE *jump_to(BYTE *module, void *target, const char *name)
{
    static const BYTE load[] = { 0x48, 0xb8 }, jump[] = { 0xff, 0xe0 }; /* mov rax, imm64; jmp rax */
    BYTE *at, *place;
    int i;
    for (i = 0; i < MODULES && blocks[i].module && blocks[i].module != module; i++) {}
    if (i == MODULES) die("more modules than expected", name);
    if (!blocks[i].module) {
        for (at = module + 0x2000000, place = NULL; !place && at < module + 0x7f000000; at += BLOCK_SIZE)
            place = VirtualAlloc(at, BLOCK_SIZE, MEM_RESERVE | MEM_COMMIT, PAGE_EXECUTE_READWRITE);
        if (!place) die("no memory near the module", name);
        blocks[i].module = module;
        blocks[i].next = place;
        blocks[i].end = place + BLOCK_SIZE;
    }
    place = blocks[i].next;
    if (place + JUMP_SIZE > blocks[i].end) die("too many replacements", name);
    blocks[i].next += JUMP_SIZE;
    memcpy(place, load, 2);
    memcpy(place + 2, &target, 8);
    memcpy(place + 10, jump, 2);
    return place;
}

void *replace(HMODULE module, const char *name, void *replacement)
{
    BYTE *base = (BYTE *)module;
    IMAGE_NT_HEADERS *headers;
    IMAGE_EXPORT_DIRECTORY *exports;
    DWORD *names, *slot, i, protection;
    void *original;
    if (!module || !(original = (void *)GetProcAddress(module, name))) return NULL;
    headers = (IMAGE_NT_HEADERS *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    exports = (IMAGE_EXPORT_DIRECTORY *)(base + headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_EXPORT].VirtualAddress);
    names = (DWORD *)(base + exports->AddressOfNames);
    for (i = 0; i < exports->NumberOfNames && strcmp((char *)base + names[i], name); i++) {}
    if (i == exports->NumberOfNames) return NULL;
    slot = (DWORD *)(base + exports->AddressOfFunctions) + ((WORD *)(base + exports->AddressOfNameOrdinals))[i];
    if (!VirtualProtect(slot, sizeof(*slot), PAGE_READWRITE, &protection)) die("export table cannot be written", name);
    *slot = (DWORD)(jump_to(base, replacement, name) - base);
    VirtualProtect(slot, sizeof(*slot), protection, &protection);
    return original;
}

BOOL WINAPI DllMain(HINSTANCE instance, DWORD reason, LPVOID reserved)
{
    if (reason != DLL_PROCESS_ATTACH) return TRUE;
    if (!GetProcAddress(GetModuleHandleA("ntdll.dll"), "wine_get_version")) return TRUE;
    replace_ntdll();
    replace_winsock();
    replace_services();
    replace_security();
    replace_symbolic_links();
    replace_performance_counters();
    replace_shutdown();
    give_service_environment();
    return TRUE;
}
