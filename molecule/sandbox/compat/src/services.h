/* What services.c and serviceconfig.c share. */
#ifndef SERVICES_H
#define SERVICES_H
#include "compat.h"
#include <winsvc.h>

/* The name of the service that a handle was opened for, to release; NULL for other handles. */
WCHAR *service_name(SC_HANDLE handle);

/* The registry key of a service; NULL with the last error set. */
HKEY service_key(SC_HANDLE handle, REGSAM access);
HKEY service_key_named(const WCHAR *name, REGSAM access);

#endif
