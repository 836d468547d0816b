/** systemd units of the package. */

/** One user's service, started at login once enabled; `sbx` starts it automatically otherwise. */
export const USER_UNIT = `[Unit]
Description=sbx, virtual machines for agents
Documentation=file:///usr/share/doc/sbx/README.md.gz

[Service]
ExecStart=/usr/bin/sbx-service
# Machines outlive the service: a restart finds them again.
KillMode=process
Restart=on-failure
UMask=0077

[Install]
WantedBy=default.target
`;

/** Service of one user on a machine without logins: systemctl enable --now sbx-service@NAME. */
export const INSTANCE_UNIT = `[Unit]
Description=sbx, virtual machines for agents of %i
Documentation=file:///usr/share/doc/sbx/README.md.gz
After=network-online.target
Wants=network-online.target

[Service]
User=%i
ExecStart=/usr/bin/sbx-service
KillMode=process
Restart=on-failure
UMask=0077

[Install]
WantedBy=multi-user.target
`;

/** Assets that a package names, for all users. */
export const ASSETS_UNIT = `[Unit]
Description=Assets of sbx that the package names
Documentation=file:///usr/share/doc/sbx/README.md.gz
ConditionPathExists=/usr/share/sbx/manifest-origin.json
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/lib/sbx/update-assets
StateDirectory=sbx
StateDirectoryMode=0755
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
NoNewPrivileges=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
`;

/** Checks once a day, each machine at a different time. */
export const ASSETS_TIMER = `[Unit]
Description=Assets of sbx, once a day
ConditionPathExists=/usr/share/sbx/manifest-origin.json

[Timer]
OnCalendar=daily
RandomizedDelaySec=6h
Persistent=true

[Install]
WantedBy=timers.target
`;
