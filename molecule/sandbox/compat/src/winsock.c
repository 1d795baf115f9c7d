/* UDP sockets. */
#include "compat.h"

/* Go's net package switches off two kinds of error reports on every UDP socket and fails where it cannot; Wine 8 knows one of them. */
#define UDP_NETRESET 0x9800000F /* SIO_UDP_NETRESET, mswsock.h */

static int (WINAPI *wine_WSAIoctl)(SOCKET, DWORD, void *, DWORD, void *, DWORD, DWORD *, void *, void *);
static int WINAPI windows_WSAIoctl(SOCKET socket, DWORD code, void *in, DWORD in_size, void *out, DWORD out_size, DWORD *returned,
                                   void *overlapped, void *completion)
{
    if (code == UDP_NETRESET) {
        if (returned) *returned = 0;
        return 0;
    }
    return wine_WSAIoctl(socket, code, in, in_size, out, out_size, returned, overlapped, completion);
}

void replace_winsock(void)
{
    HMODULE ws2_32 = LoadLibraryA("ws2_32.dll");
    REPLACE(ws2_32, WSAIoctl);
    replace_unix_sockets(ws2_32);
}
