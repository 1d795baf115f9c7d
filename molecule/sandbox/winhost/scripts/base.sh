#!/bin/bash
# Makes a fresh Wine prefix in $WINHOST_DIR/prefix ($WINHOST_DIR/etc has the accounts), in namespaces of its own: nothing that Wine starts survives it.
set -eu
mount --make-rprivate /
mount -t proc proc /proc
mount --bind "$WINHOST_DIR" /mnt # $WINHOST_DIR may lie in /tmp, which Wine's sockets fill otherwise
mount -t tmpfs tmpfs /tmp
for file in passwd group; do mount --bind "/mnt/etc/$file" /etc/$file; done
hostname windows
ip link set lo up
export WINEPREFIX=/mnt/prefix WINEDEBUG=-all WINEARCH=win64 WINEDLLOVERRIDES='mscoree,mshtml=' LANG=C.UTF-8 LC_ALL=C.UTF-8
export WINESERVER=$WINHOST_WINESERVER HOME=/mnt/etc
unset DISPLAY
mkdir -p "$WINEPREFIX"
cd "$WINEPREFIX"
"$WINESERVER" -p </dev/null
"$WINHOST_WINE" wineboot -i </dev/null
"$WINHOST_WINE" winecfg -v win10 </dev/null
"$WINESERVER" -k
"$WINESERVER" -w
