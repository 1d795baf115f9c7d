/* Symbolic links. */
#include "compat.h"

/*
 * Wine's CreateSymbolicLinkW reports success and makes nothing. The kubelet links container logs of pods; a copy of a file serves those who
 * read it through the link's name. A link to a folder or to nothing fails, as it does for a user without the right to make links.
 */
static BOOLEAN WINAPI windows_CreateSymbolicLinkW(LPCWSTR link, LPCWSTR target, DWORD flags)
{
    BOOL absolute = target[0] == '\\' || target[0] == '/' || (target[0] && target[1] == ':'), copied;
    SIZE_T folder = 0, i;
    WCHAR *path;
    for (i = 0; !absolute && link[i]; i++)
        if (link[i] == '\\' || link[i] == '/') folder = i + 1;
    path = allocate((folder + lstrlenW(target) + 1) * sizeof(WCHAR));
    memcpy(path, link, folder * sizeof(WCHAR));
    lstrcpyW(path + folder, target);
    copied = CopyFileW(path, link, TRUE);
    if (!copied && (GetFileAttributesW(path) == INVALID_FILE_ATTRIBUTES || (flags & SYMBOLIC_LINK_FLAG_DIRECTORY)))
        SetLastError(ERROR_PRIVILEGE_NOT_HELD);
    release(path);
    return copied;
}

void replace_symbolic_links(void)
{
    replace(GetModuleHandleA("kernel32.dll"), "CreateSymbolicLinkW", windows_CreateSymbolicLinkW);
}
