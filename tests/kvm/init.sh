#!/bin/bash
# init.sh: PID 1 of the machine with KVM, once the folder that it shares with the host is at /share (root.sh). Mounts each folder
# of /share/folders from a disk of its own, with writes going to this machine's, and starts each in/NAME.sh once; its output goes to
# out/NAME.log, and its exit code to out/NAME.rc.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8 NO_COLOR=1
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts; mount -t tmpfs -o mode=1777 shm /dev/shm
ln -sfn /proc/self/fd /dev/fd; ln -sfn /proc/self/fd/0 /dev/stdin; ln -sfn /proc/self/fd/1 /dev/stdout; ln -sfn /proc/self/fd/2 /dev/stderr
mount -t tmpfs -o mode=755 run /run; mkdir -p /run/lock; chmod 1777 /tmp; chmod 711 /root
mount -t cgroup2 cgroup /sys/fs/cgroup
hostname kvm; ip link set lo up
modprobe -a erofs overlay kvm_amd || echo "kvm: a module is missing" >/dev/console

while read -r disk folder; do
  mkdir -p "$folder" "/run/$disk" "/var/shares/$disk/upper" "/var/shares/$disk/work"
  mount -t erofs -o ro "/dev/$disk" "/run/$disk"
  mount -t overlay -o "lowerdir=/run/$disk,upperdir=/var/shares/$disk/upper,workdir=/var/shares/$disk/work" "$disk" "$folder"
done </share/folders

chgrp kvm /dev/kvm; chmod 660 /dev/kvm
touch /share/out/up
while [ ! -e /share/in/poweroff ]; do
  for file in /share/in/*.sh; do
    [ -e "$file" ] || continue
    name=$(basename "$file" .sh)
    mv "$file" "/share/in/$name.begun"
    (
      bash "/share/in/$name.begun" >"/share/out/$name.log" 2>&1 </dev/null
      echo $? >"/share/out/$name.rc.new"
      mv "/share/out/$name.rc.new" "/share/out/$name.rc"
    ) &
  done
  sleep 1
done
sync
echo o >/proc/sysrq-trigger
sleep 60
