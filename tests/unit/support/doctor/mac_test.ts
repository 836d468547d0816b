/**
 * `sbx doctor` and `sbx debug` of a Mac: they look for the library and its entitlement, not for QEMU and KVM.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { home as homeOf } from "../../../../lib/base/home/mod.ts";
import { ROLE_PROGRAMS } from "../../../../lib/base/spawn/mod.ts";
import { debugReport } from "../../../../lib/support/debug/mod.ts";
import { type HostCheck, hostReport, type HostSystem } from "../../../../lib/support/doctor/host/mod.ts";
import { hostHypervisor } from "../../../../lib/machine/vm/mod.ts";

const ENTITLED = "<plist><dict><key>com.apple.security.virtualization</key><true/></dict></plist>";
const LINUX_WORDS = /qemu|kvm|vhost|virtiofsd|apt-get|timedatectl|usermod|uidmap|\/proc|\/dev\//i;

/** A Mac that says this; `asked` gets the names of its programs. */
function mac(
  says: Record<string, string> = {},
  more: Partial<HostSystem> = {},
  asked: string[] = [],
): HostSystem {
  const answers: Record<string, string> = {
    sw_vers: "15.1",
    sysctl: "1",
    codesign: ENTITLED,
    ...says,
  };
  const features = {
    pause: true,
    shared_folder: true,
    save_state: false,
    rosetta: false,
    nested: false,
    emulation: false,
  };
  return {
    os: "darwin",
    arch: "aarch64",
    exe: "/usr/local/bin/sbx",
    output: (program) => {
      asked.push(program);
      return Promise.resolve(answers[program] || undefined);
    },
    kvm: "/nowhere",
    find: () => undefined,
    tryKvm: () => Promise.resolve(undefined),
    hypervisor: () => ({
      features,
      lackOf: () => "the framework does not save such machines",
      requireHost() {},
      prepare() {},
    }),
    ...more,
  };
}

async function checksOf(system: HostSystem): Promise<Record<string, HostCheck>> {
  const dir = await Deno.makeTempDir();
  const { checks } = await hostReport(
    homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined }),
    {},
    system,
  );
  await Deno.remove(dir, { recursive: true });
  return Object.fromEntries(checks.map((check) => [check.id, check]));
}

Deno.test("a Mac that is in order: nothing of Linux is looked for or advised", async () => {
  const asked: string[] = [];
  const checks = await checksOf(mac({}, {}, asked));
  assertEquals(
    ["macos", "virtualization", "entitlement", "library"].map((id) => checks[id].state),
    Array(4).fill("ok"),
  );
  assertEquals([checks.features.state, checks.features.detail], [
    "skipped",
    "the framework does not save such machines",
  ]);
  assertEquals(asked.sort(), ["codesign", "sw_vers", "sysctl"]);
  for (const id of ["qemu", "vsock", "virtiofsd", "uidmap"]) assert(!(id in checks), id);
  for (
    const id of [
      "macos",
      "virtualization",
      "entitlement",
      "library",
      "features",
      "memory",
      "clock",
      "company-ca",
    ]
  ) {
    const { title, detail, remedy = "" } = checks[id];
    assert(!LINUX_WORDS.test(`${title} ${detail} ${remedy}`), `${id}: ${detail} ${remedy}`);
  }
});

const WRONG: [what: string, id: string, system: HostSystem, detail: string][] = [
  ["an old macOS", "macos", mac({ sw_vers: "12.7.6" }), "VMs need macOS 13"],
  ["an Intel Mac", "virtualization", mac({}, { arch: "x86_64" }), "Intel"],
  ["a Mac in a virtual machine", "virtualization", mac({ sysctl: "0" }), "no virtualization"],
  ["a program without a signature", "entitlement", mac({ codesign: "" }), "not signed"],
  [
    "a program without the entitlement",
    "entitlement",
    mac({ codesign: "<plist/>" }),
    "lacks com.apple.security",
  ],
  [
    "an entitlement that is refused",
    "entitlement",
    mac({ codesign: ENTITLED.replace("true", "false") }),
    "lacks com.apple.security",
  ],
  [
    "a Mac without the library",
    "library",
    mac({}, { hypervisor: () => hostHypervisor("", "darwin") }),
    "libsbxvm.dylib cannot be loaded",
  ],
];

for (const [what, id, system, detail] of WRONG) {
  Deno.test(`doctor: ${what} is named, with what mends it`, async () => {
    const check = (await checksOf(system))[id];
    assertEquals(check.state, "failed", check.detail);
    assertStringIncludes(check.detail, detail);
    assert(check.remedy, "a remedy");
    assert(!LINUX_WORDS.test(check.remedy!), check.remedy);
  });
}

Deno.test("the debug report of a Mac has the library and launchd's agent in place of QEMU and systemd", async () => {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const { host, host_binaries, install } = await debugReport(
    home,
    { running: 0, total: 0, issues: [], defunct: [] },
    "darwin",
  );
  assertEquals([host.os, host.family], ["darwin", "unix"]);
  assertEquals(Object.keys(host_binaries).sort(), ["deno", "libsbxvm.dylib", ...ROLE_PROGRAMS]);
  assertStringIncludes(host_binaries["libsbxvm.dylib"].path, "libsbxvm.dylib");
  assertEquals(install.service_unit_path, "");
  await Deno.remove(dir, { recursive: true });
});
