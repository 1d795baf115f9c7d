/*
 * Listeners on AF_UNIX sockets, which the kubelet's device plugin server opens and Wine 8 lacks: a listener on a loopback TCP port, and a
 * file of the name that the socket has. On Windows that file stays when its process dies, and the kubelet, which sees that it is a socket,
 * deletes it at its next start; here it cannot be told from any other file, so that it goes with its process. Connecting to such a socket is not provided for: nothing here does.
 */
#include "compat.h"

#define UNIX_FAMILY 1
#define PATH_SIZE 108 /* of sockaddr_un, afunix.h */

struct unix_address { WORD family; char path[PATH_SIZE]; };

struct unix_socket { SOCKET socket; HANDLE file; char path[PATH_SIZE]; struct unix_socket *next; };

static struct unix_socket *sockets;
static SRWLOCK lock = SRWLOCK_INIT;

/* Copies the path that a socket is bound to; FALSE if the socket is not one of ours. */
static BOOL path_of(SOCKET socket, char path[PATH_SIZE])
{
    struct unix_socket *known;
    AcquireSRWLockShared(&lock);
    for (known = sockets; known && known->socket != socket; known = known->next) {}
    if (known) memcpy(path, known->path, PATH_SIZE);
    ReleaseSRWLockShared(&lock);
    return known != NULL;
}

static SOCKET (WINAPI *wine_WSASocketW)(int, int, int, void *, unsigned, DWORD);
static SOCKET WINAPI windows_WSASocketW(int family, int type, int protocol, void *info, unsigned group, DWORD flags)
{
    struct unix_socket *known;
    SOCKET socket;
    if (family != UNIX_FAMILY) return wine_WSASocketW(family, type, protocol, info, group, flags);
    socket = wine_WSASocketW(AF_INET, type, 0, info, group, flags);
    if (socket == INVALID_SOCKET) return socket;
    known = allocate(sizeof(*known));
    known->socket = socket;
    known->file = INVALID_HANDLE_VALUE;
    AcquireSRWLockExclusive(&lock);
    known->next = sockets;
    sockets = known;
    ReleaseSRWLockExclusive(&lock);
    return socket;
}

static int (WINAPI *wine_bind)(SOCKET, const void *, int);
static int WINAPI windows_bind(SOCKET socket, const void *address, int size)
{
    const struct unix_address *named = address;
    struct sockaddr_in loopback = { .sin_family = AF_INET };
    struct unix_socket *known;
    char path[PATH_SIZE] = "";
    HANDLE file;
    int length = size - (int)sizeof(named->family);
    if (!address || size < (int)sizeof(named->family) || named->family != UNIX_FAMILY) return wine_bind(socket, address, size);
    memcpy(path, named->path, length < PATH_SIZE - 1 ? length : PATH_SIZE - 1);
    /* A path that exists is in use, as on Windows, until it is deleted. */
    file = CreateFileA(path, GENERIC_WRITE | DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, CREATE_NEW,
                       FILE_FLAG_DELETE_ON_CLOSE, NULL);
    if (file == INVALID_HANDLE_VALUE) {
        WSASetLastError(GetLastError() == ERROR_FILE_EXISTS ? WSAEADDRINUSE : WSAEINVAL);
        return SOCKET_ERROR;
    }
    AcquireSRWLockExclusive(&lock);
    for (known = sockets; known && known->socket != socket; known = known->next) {}
    if (known) {
        memcpy(known->path, path, PATH_SIZE);
        known->file = file;
    }
    ReleaseSRWLockExclusive(&lock);
    if (!known) CloseHandle(file);
    loopback.sin_addr.s_addr = 0x0100007f; /* 127.0.0.1 */
    return wine_bind(socket, &loopback, sizeof(loopback));
}

static int (WINAPI *wine_getsockname)(SOCKET, void *, int *);
static int WINAPI windows_getsockname(SOCKET socket, void *address, int *size)
{
    struct unix_address own = { .family = UNIX_FAMILY };
    int length;
    if (!path_of(socket, own.path)) return wine_getsockname(socket, address, size);
    length = sizeof(own.family) + lstrlenA(own.path) + 1;
    if (*size < length) {
        WSASetLastError(WSAEFAULT);
        return SOCKET_ERROR;
    }
    memcpy(address, &own, length);
    *size = length;
    return 0;
}

static int (WINAPI *wine_closesocket)(SOCKET);
static int WINAPI windows_closesocket(SOCKET socket)
{
    struct unix_socket **at, *known = NULL;
    AcquireSRWLockExclusive(&lock);
    for (at = &sockets; *at && (*at)->socket != socket; at = &(*at)->next) {}
    if (*at) {
        known = *at;
        *at = known->next;
    }
    ReleaseSRWLockExclusive(&lock);
    if (known && known->file != INVALID_HANDLE_VALUE) CloseHandle(known->file);
    release(known);
    return wine_closesocket(socket);
}

void replace_unix_sockets(HMODULE ws2_32)
{
    REPLACE(ws2_32, WSASocketW);
    REPLACE(ws2_32, bind);
    REPLACE(ws2_32, getsockname);
    REPLACE(ws2_32, closesocket);
}
