#!/bin/sh
# The login shell of a Windows host's users, called by sshd as `session.sh -c COMMAND`: Windows' cmd.exe gets COMMAND byte for byte.
home=/run/winhost
case ${2-} in
"$home/etc/sftp.sh") exec "$2" ;;
esac
. $home/etc/wine.env
export WINHOST_COMMAND="${2-}"
unset MAIL SHELL LOGNAME
cd "$WINEPREFIX/drive_c/users/Administrator" || exit 1
if [ -z "$WINHOST_COMMAND" ]; then
    exec "$WINE" cmd.exe
fi
exec "$WINE" 'C:\sandbox\bin\sshsession.exe'
