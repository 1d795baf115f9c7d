/* File security. */
#include "compat.h"
#include <aclapi.h>

/*
 * A protected DACL inherits nothing. Wine's SetNamedSecurityInfoW adds the parent's inheritable entries all the same, which opens to
 * others what was to be closed; its SetFileSecurityW does not.
 */
static BOOL is_protected(SE_OBJECT_TYPE type, SECURITY_INFORMATION what)
{
    const SECURITY_INFORMATION both = DACL_SECURITY_INFORMATION | PROTECTED_DACL_SECURITY_INFORMATION;
    return type == SE_FILE_OBJECT && (what & both) == both;
}

static void describe(SECURITY_DESCRIPTOR *descriptor, PACL dacl)
{
    InitializeSecurityDescriptor(descriptor, SECURITY_DESCRIPTOR_REVISION);
    SetSecurityDescriptorDacl(descriptor, TRUE, dacl, FALSE);
    SetSecurityDescriptorControl(descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED);
}

static DWORD (WINAPI *wine_SetNamedSecurityInfoW)(LPWSTR, SE_OBJECT_TYPE, SECURITY_INFORMATION, PSID, PSID, PACL, PACL);
static DWORD WINAPI windows_SetNamedSecurityInfoW(LPWSTR name, SE_OBJECT_TYPE type, SECURITY_INFORMATION what, PSID owner, PSID group,
                                                  PACL dacl, PACL sacl)
{
    SECURITY_DESCRIPTOR descriptor;
    if (!is_protected(type, what)) return wine_SetNamedSecurityInfoW(name, type, what, owner, group, dacl, sacl);
    describe(&descriptor, dacl);
    return SetFileSecurityW(name, DACL_SECURITY_INFORMATION, &descriptor) ? ERROR_SUCCESS : GetLastError();
}

static DWORD (WINAPI *wine_SetSecurityInfo)(HANDLE, SE_OBJECT_TYPE, SECURITY_INFORMATION, PSID, PSID, PACL, PACL);
static DWORD WINAPI windows_SetSecurityInfo(HANDLE handle, SE_OBJECT_TYPE type, SECURITY_INFORMATION what, PSID owner, PSID group,
                                            PACL dacl, PACL sacl)
{
    SECURITY_DESCRIPTOR descriptor;
    if (!is_protected(type, what)) return wine_SetSecurityInfo(handle, type, what, owner, group, dacl, sacl);
    describe(&descriptor, dacl);
    return SetKernelObjectSecurity(handle, DACL_SECURITY_INFORMATION, &descriptor) ? ERROR_SUCCESS : GetLastError();
}

void replace_security(void)
{
    HMODULE advapi32 = LoadLibraryA("advapi32.dll");
    REPLACE(advapi32, SetNamedSecurityInfoW);
    REPLACE(advapi32, SetSecurityInfo);
}
