#!/bin/bash
# The first process of one Windows host, started in namespaces of its own (mount, PID, network, UTS). It builds the host's view of the
# machine, boots Wine's services, the SSH server and the WinRM endpoint, obeys the orders that come through the fifo `control`, and takes
# everything with it when it ends. Parameters come as WINHOST_* variables; stdin gives one line once the network interface is there.
set -u

dir=$WINHOST_DIR
home=/run/winhost
. "$dir/etc/wine.env"

fail() { echo "winhost $WINHOST_NAME: $*" >&2; exit 1; }

# The real machine is read-only in here: a Windows program that opens /var/x reaches Linux' root even without drive z:.
isolate() {
    mount -n --make-rprivate / &&
    mount -n -t proc proc /proc &&
    mount -n --bind "$dir" /mnt &&
    mount -n -t tmpfs -o mode=755,size=64m tmpfs /run && mkdir -p /run/winhost &&
    mount -n --bind /mnt /run/winhost && umount /mnt || return 1
    # The endpoint's Python may lie in one of the folders that are hidden now.
    [ -z "$WINHOST_WINRM" ] || { mkdir -p $home/python && mount -n --bind "${WINHOST_WINRM%/bin/*}" $home/python; } || return 1
    local scratch
    for scratch in /tmp /var/log /var/lib /var/tmp; do
        mount -n -t tmpfs -o mode=1777,size=256m tmpfs $scratch || return 1
    done
    mkdir -p /run/sshd /var/log/pods "$HOME" && chmod 0755 /run/sshd &&
    mount -n -o remount,bind,ro / || return 1
    local file
    for file in passwd group shadow hosts resolv.conf nsswitch.conf; do
        mount -n --bind $home/etc/$file /etc/$file || return 1
    done
    [ ! -e /etc/pam.d/sshd ] || mount -n --bind $home/etc/pam-sshd /etc/pam.d/sshd || return 1
    cd $home
}

network() {
    ip link set lo up && ip link set eth0 up && ip addr add "$WINHOST_ADDRESS" dev eth0 || return 1
    [ -z "$WINHOST_GATEWAY" ] || ip route add default via "$WINHOST_GATEWAY"
}

# Drive C: is a file system of its own, so that filling it fills this host alone.
disk() {
    local fresh=
    if [ ! -e disk.ready ]; then
        rm -f disk.img && truncate -s "$WINHOST_DISK" disk.img &&
        mkfs.ext4 -q -F -m 0 -N 131072 -O ^has_journal -E lazy_itable_init=1,nodiscard disk.img || return 1
        fresh=yes
    fi
    mount -n -o loop,discard,noatime disk.img prefix/drive_c || return 1
    if [ -n "$fresh" ]; then
        rmdir prefix/drive_c/lost+found
        cp -a disk.first/. prefix/drive_c/ && mkdir -p prefix/drive_c/windows && rm -rf disk.first && touch disk.ready || return 1
    fi
    mount -n --bind windows prefix/drive_c/windows
}

# SFTP sees C:\k as /C:/k, as Windows' own OpenSSH shows it.
sftp_view() {
    mkdir -p /run/sftp/C: /run/sftp/usr /run/sftp/dev /run/sftp/etc &&
    ln -s usr/lib /run/sftp/lib && ln -s usr/lib64 /run/sftp/lib64 &&
    mount -n --bind /usr /run/sftp/usr && mount -n -o remount,bind,ro /run/sftp/usr &&
    mount -n --bind prefix/drive_c /run/sftp/C: && mount -n --rbind prefix/drive_c/windows /run/sftp/C:/windows &&
    touch /run/sftp/dev/null && mount -n --bind /dev/null /run/sftp/dev/null &&
    cp etc/passwd etc/group /run/sftp/etc/
}

# Each boot has a number, which the kubelet reads as the boot id. The registry's file is Wine's to write while a wineserver runs, so
# this comes before.
count_boot() {
    boot=$(( $(cat boots 2>/dev/null || echo 0) + 1 ))
    echo $boot >boots
    printf '\n[System\\\\CurrentControlSet\\\\Control\\\\Session Manager\\\\Memory Management\\\\PrefetchParameters] %d\n"BootId"=dword:%08x\n' \
        "$(date +%s)" $boot >>prefix/system.reg
}

# Returns once the ports are open.
winrm() {
    local options=()
    [ ! -e etc/winrm/keytab ] || options+=(--keytab etc/winrm/keytab)
    KRB5_CONFIG=$home/etc/winrm/krb5.conf PYTHONPATH=$home/etc/winrm $home/python/bin/python -m winrm_endpoint --address "${WINHOST_ADDRESS%/*}" \
        --http 5985 --https 5986 --users etc/winrm/users --tls-dir etc/winrm --client-ca etc/winrm/client-ca.crt "${options[@]}" \
        --latency-file $home/etc/winrm-latency-ms --results /run/winrm --results-as "\\\\?\\unix\\run\\winrm\\" --lone-kill --detach \
        --run $home/etc/session.sh -c </dev/null >>$home/log/winrm.log 2>&1
}

boot() {
    rm -f prefix/drive_c/sandbox/power ready
    count_boot
    if [ "$WINHOST_WINDOWS" = yes ]; then
        # services.exe passes its standard handles on to every service, which hold them open for ever: no pipe may reach it.
        (cd prefix/drive_c && "$WINESERVER" -p </dev/null >>$home/log/boot.log 2>&1 &&
            "$WINE" wineboot </dev/null >>$home/log/boot.log 2>&1) || echo "boot $boot: wineboot failed, see boot.log" >&2
    fi
    ip link set eth0 up
    [ -z "$WINHOST_GATEWAY" ] || ip route replace default via "$WINHOST_GATEWAY"
    /usr/sbin/sshd -f $home/etc/sshd_config -E $home/log/sshd.log || fail "sshd did not start: see log/sshd.log"
    [ -z "$WINHOST_WINRM" ] || winrm || fail "the WinRM endpoint did not start: see log/winrm.log"
    echo $boot >ready.new && mv ready.new ready
    echo "boot $boot: ready"
}

# $1: clean (the registry is written) or power (it is not).
halt() {
    ip link set eth0 down
    [ "$1" = power ] || timeout 20 "$WINESERVER" -k 2>/dev/null
    kill -KILL -1 2>/dev/null
    local others
    for _ in {1..500}; do
        others=(/proc/[1-9]*)
        [ ${#others[@]} -le 1 ] && return
        read -rt 0.02 -u 3
    done
}

# $1: the order, $2: the seconds until it holds.
obey() {
    sleep "${2:-0}"
    case $1 in
    reboot) echo "boot $boot: reboot"; halt clean; boot ;;
    reset) echo "boot $boot: reset"; halt power; boot ;;
    shutdown) echo "boot $boot: shutdown"; halt clean; exit 0 ;;
    *) echo "unknown order: $1" >&2 ;;
    esac
}

isolate || fail "cannot make the host's view of the machine"
read -r _ || fail "the network was not made"
exec </dev/null
rm -f $home/control && mkfifo -m 0600 $home/control && exec 3<>$home/control
hostname "$WINHOST_NAME"
network || fail "cannot configure eth0 as $WINHOST_ADDRESS"
disk || fail "cannot mount drive C: (are loop devices available?)"
sftp_view || fail "cannot build the view that SFTP shows"
boot
while :; do
    # The wait ends early when an order comes. bash reaps the orphans of this PID namespace meanwhile.
    if read -rt 1 -u 3 order; then
        obey "$order"
    elif read -r order seconds 2>/dev/null <prefix/drive_c/sandbox/power; then # from within Windows
        rm -f prefix/drive_c/sandbox/power
        obey "${order%$'\r'}" "${seconds%$'\r'}"
    fi
done
