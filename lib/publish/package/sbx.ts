/** The Debian package of sbx, with its systemd units. */
import { gzipSync } from "node:zlib";
import { ROLE_PROGRAMS } from "../../base/spawn/mod.ts";
import { type Deb, type DebArch, debianVersion, type PackageFile } from "./deb.ts";
import { POSTINST, POSTRM, PRERM, UPDATE_ASSETS } from "./script.ts";

/** One user's service, started at login once enabled; `sbx` starts it automatically otherwise. */
const USER_UNIT = `[Unit]
Description=sbx, virtual machines for agents
Documentation=file:///usr/share/doc/sbx/README.md.gz

[Service]
ExecStart=/usr/bin/sbx-service
# Machines outlive the service: a restart finds them again.
KillMode=process
Restart=on-failure
UMask=0077
LimitCORE=0
TasksMax=16384
OOMPolicy=continue

[Install]
WantedBy=default.target
`;

/**
 * Service of one user on a machine without logins: systemctl enable --now sbx-service@NAME. It has
 * its user's rights, and its limits. Of the capabilities that a set-user-ID program could get, the ones stay
 * that newuidmap needs for the folders of VMs, and mmdebstrap as root for images. Filters of system calls,
 * devices and namespaces would imply NoNewPrivileges before systemd 255, without which newuidmap gets none.
 */
const INSTANCE_UNIT = `[Unit]
Description=sbx, virtual machines for agents of %i
Documentation=file:///usr/share/doc/sbx/README.md.gz
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=60
StartLimitBurst=5

[Service]
User=%i
ExecStart=/usr/bin/sbx-service
KillMode=process
Restart=on-failure
UMask=0077
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_SETPCAP CAP_SETFCAP CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_CHOWN CAP_FOWNER CAP_FSETID CAP_KILL CAP_MKNOD CAP_SYS_ADMIN CAP_SYS_CHROOT CAP_SYS_RESOURCE CAP_AUDIT_WRITE
ProtectSystem=full
PrivateMounts=yes
ProtectControlGroups=yes
KeyringMode=private
LimitCORE=0
TasksMax=16384
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
`;

/** Metrics of all users, for the textfile collector of node_exporter. */
const METRICS_UNIT = `[Unit]
Description=Metrics of sbx of all users
ConditionPathIsDirectory=/var/lib/prometheus/node-exporter

[Service]
Type=oneshot
ExecStart=/usr/bin/sbx-admin users metrics --out /var/lib/prometheus/node-exporter/sbx.prom
TimeoutStartSec=120
ProtectSystem=strict
ReadWritePaths=/var/lib/prometheus/node-exporter
PrivateTmp=yes
PrivateDevices=yes
PrivateMounts=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX
PrivateNetwork=yes
LockPersonality=yes
SystemCallArchitectures=native
# It reads whose processes run sbx, and asks each as its user.
CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_SYS_PTRACE CAP_DAC_READ_SEARCH CAP_KILL
NoNewPrivileges=yes
`;

const METRICS_TIMER = `[Unit]
Description=Metrics of sbx of all users, once a minute
ConditionPathIsDirectory=/var/lib/prometheus/node-exporter

[Timer]
OnBootSec=1min
OnUnitActiveSec=1min

[Install]
WantedBy=timers.target
`;

/** Assets that a package names, for all users. */
const ASSETS_UNIT = `[Unit]
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
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
PrivateMounts=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
LockPersonality=yes
SystemCallArchitectures=native
CapabilityBoundingSet=
`;

/** Checks once a day, each machine at a different time. */
const ASSETS_TIMER = `[Unit]
Description=Assets of sbx, once a day
ConditionPathExists=/usr/share/sbx/manifest-origin.json

[Timer]
OnCalendar=daily
RandomizedDelaySec=6h
Persistent=true

[Install]
WantedBy=timers.target
`;

/**
 * For needrestart (Debian's, after each call of apt): it names what runs a replaced sbx, and restarts no
 * user's service, whose VMs would go on with the old program.
 */
const NEEDRESTART = `# sbx: a restarted service finds its VMs again, and they still run the replaced program.
# "sbx-admin users restart" restarts both, and suspends and resumes VMs where the host can.
$nrconf{override_rc}{qr(^sbx-service@)} = 0;
`;

/** Programs beside `sbx`: the same file under other names. */
export const ROLES = ROLE_PROGRAMS.filter((name) => name !== "sbx");

/** Parts of sbx's package. */
export interface SbxParts {
  version: string;
  arch: Exclude<DebArch, "all">;
  maintainer: string;
  /** path of the program */
  program: string;
  /** path of vhost-device-vsock, and its source package as Debian names it, with its version */
  vsock: { program: string; builtUsing: string };
  /** scripts, by shell */
  completions: Record<"bash" | "zsh" | "fish", string>;
  /** manual pages of section 1 in roff, by program */
  manuals: Record<string, string>;
  /** text of LICENSES of everything in the program */
  notices: string;
  readme: string;
  changelog: string;
  /** SPDX document */
  sbom: string;
  sourceDateEpoch: number;
}

/** The package `sbx` (docs/guides/packages.md). */
export function sbxDeb(parts: SbxParts): Deb {
  const { version, arch, maintainer, vsock, sourceDateEpoch } = parts;
  const doc = "usr/share/doc/sbx";
  const unit = (path: string, text: string): PackageFile => ({
    path: `usr/lib/systemd/${path}`,
    content: { text },
  });
  const gzip = (path: string, text: string): PackageFile => ({
    path: `usr/share/${path}.gz`,
    content: { bytes: new Uint8Array(gzipSync(text, { level: 9 })) },
  });
  return {
    control: {
      Package: "sbx",
      Version: debianVersion(version),
      Architecture: arch,
      Maintainer: maintainer,
      Depends: [
        "libc6 (>= 2.34)",
        "libgcc-s1",
        arch === "amd64" ? "qemu-system-x86" : "qemu-system-arm",
        // bookworm's virtiofsd is a part of its QEMU.
        "virtiofsd | qemu-system-common (<< 1:8.0)",
        "uidmap",
        "mount",
        "e2fsprogs",
        "erofs-utils",
        "ca-certificates",
      ].join(", "),
      Recommends: "mmdebstrap, patchelf, skopeo, lz4, zstd, xz-utils, npm, openssh-client",
      // Of a machine of a fleet with a TPM.
      Suggests: "tpm2-tools",
      "Built-Using": vsock.builtUsing,
      Section: "utils",
      Priority: "optional",
      Description: DESCRIPTION,
    },
    scripts: { postinst: POSTINST, prerm: PRERM, postrm: POSTRM },
    conffiles: ["/etc/needrestart/conf.d/sbx.conf"],
    files: [
      { path: "etc/needrestart/conf.d/sbx.conf", content: { text: NEEDRESTART } },
      { path: "usr/bin/sbx", content: { copyOf: parts.program }, mode: 0o755 },
      ...ROLES.map((role) => ({ path: `usr/bin/${role}`, content: { linkTo: "sbx" } })),
      { path: "usr/lib/sbx/vhost-device-vsock", content: { copyOf: vsock.program }, mode: 0o755 },
      { path: "usr/lib/sbx/update-assets", content: { text: UPDATE_ASSETS }, mode: 0o755 },
      unit("user/sbx.service", USER_UNIT),
      unit("system/sbx-service@.service", INSTANCE_UNIT),
      unit("system/sbx-metrics.service", METRICS_UNIT),
      unit("system/sbx-metrics.timer", METRICS_TIMER),
      unit("system/sbx-assets.service", ASSETS_UNIT),
      unit("system/sbx-assets.timer", ASSETS_TIMER),
      { path: "usr/share/bash-completion/completions/sbx", content: { text: parts.completions.bash } },
      { path: "usr/share/zsh/vendor-completions/_sbx", content: { text: parts.completions.zsh } },
      { path: "usr/share/fish/vendor_completions.d/sbx.fish", content: { text: parts.completions.fish } },
      ...Object.entries(parts.manuals).map(([program, text]) => gzip(`man/man1/${program}.1`, text)),
      { path: "usr/share/lintian/overrides/sbx", content: { text: OVERRIDES } },
      { path: `${doc}/copyright`, content: { text: COPYRIGHT } },
      { path: `${doc}/sbx-sbom.spdx.json`, content: { text: parts.sbom } },
      gzip("doc/sbx/changelog", changelog(parts)),
      gzip("doc/sbx/CHANGELOG.md", parts.changelog),
      gzip("doc/sbx/README.md", parts.readme),
      gzip("doc/sbx/third-party-notices", parts.notices),
    ],
    sourceDateEpoch,
  };
}

const DESCRIPTION = `virtual machines for AI agents, governed
 sbx runs each agent in a virtual machine of its own and decides on what the
 agent does: programs, network, files, models, MCP and credentials. Every
 event is recorded.
 .
 The program holds its runtime and its libraries, which sbx-sbom.spdx.json
 lists. Debian's vhost-device-vsock, which is in no release yet, comes with it.`;

/** Findings of lintian about a program with its runtime in front and its files behind. */
const OVERRIDES = `# Deno's runtime, with the program behind its last section: stripping would cut that off.
sbx: unstripped-binary-or-object [usr/bin/sbx]
# Libraries of Deno, as Deno publishes it.
sbx: embedded-library *
# The roles that sbx starts itself are in sbx(1).
sbx: no-manual-page *
`;

const COPYRIGHT = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sbx
Comment: usr/bin/sbx holds npm packages under the MIT, ISC, BSD, 0BSD, Apache-2.0 and PSF-2.0 licences.
 sbx-sbom.spdx.json names each with its licence; third-party-notices.gz has their texts.

Files: *
Copyright: 2026 the authors of sbx
License: Apache-2.0

Files: usr/bin/sbx
Copyright: 2026 the authors of sbx
 2018-2026 the Deno authors
License: Apache-2.0 and Expat

Files: usr/lib/sbx/vhost-device-vsock
Copyright: 2021-2026 the authors of rust-vmm/vhost-device
Comment: Debian's build of rust-vhost-device-vsock, unchanged.
License: Apache-2.0 and BSD-3-clause

License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.

License: Expat
 Permission is hereby granted, free of charge, to any person obtaining a copy
 of this software and associated documentation files (the "Software"), to deal
 in the Software without restriction, including without limitation the rights
 to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
 copies of the Software, and to permit persons to whom the Software is
 furnished to do so, subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in all
 copies or substantial portions of the Software.
 .
 THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
 FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
 AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
 SOFTWARE.

License: BSD-3-clause
 Redistribution and use in source and binary forms, with or without
 modification, are permitted provided that the following conditions are met:
 .
 1. Redistributions of source code must retain the above copyright notice, this
    list of conditions and the following disclaimer.
 2. Redistributions in binary form must reproduce the above copyright notice,
    this list of conditions and the following disclaimer in the documentation
    and/or other materials provided with the distribution.
 3. Neither the name of the copyright holder nor the names of its contributors
    may be used to endorse or promote products derived from this software
    without specific prior written permission.
 .
 THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS" AND
 ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE IMPLIED
 WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
 DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
 FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
 DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
 SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
 CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
 OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
 OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.
`;

function changelog({ version, maintainer, sourceDateEpoch }: SbxParts): string {
  // RFC 5322, as Debian writes it.
  const date = new Date(sourceDateEpoch * 1000).toUTCString().replace("GMT", "+0000");
  return `sbx (${debianVersion(version)}) unstable; urgency=medium

  * What changed is in CHANGELOG.md.gz.

 -- ${maintainer}  ${date}
`;
}
