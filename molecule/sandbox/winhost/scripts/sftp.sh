#!/bin/sh
# The SFTP subsystem: OpenSSH's own server in a root where C:\ is /C:.
exec chroot /run/sftp /usr/lib/openssh/sftp-server -d /C:/users/Administrator -u 0002 "$@"
