/** `sbx doctor --report`: facts about a host's virtualization, and nothing that names its user. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { type HostCheck, hostFacts } from "../../../../lib/support/doctor/host/mod.ts";

const CHECKS: HostCheck[] = [
  { id: "virtualization", title: "virtualization", state: "ok", detail: "tried now: KVM booted a kernel" },
  { id: "disk", title: "disk", state: "ok", detail: "9 GB available for /home/jo/.sbx" },
];
const FILES: Record<string, string> = {
  "/etc/os-release": 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n',
  "/proc/cpuinfo":
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Xeon\nflags\t\t: fpu vmx ept\n\nprocessor\t: 1\n",
  "/sys/module/kvm_intel/parameters/nested": "Y\n",
};
const read = (path: string) => FILES[path] ?? "";

function factsOf(text: string): Record<string, string> {
  return Object.fromEntries(text.trimEnd().split("\n").map((line) => line.split(/: (.*)/s, 2)));
}

Deno.test("the facts are processor, KVM and checks, without the user's folders", () => {
  const text = hostFacts({ checks: CHECKS }, [], { read });
  const facts = factsOf(text);
  assertEquals(facts.system, "Debian GNU/Linux 13 (trixie)");
  assertEquals(facts.processor, "Xeon, GenuineIntel");
  assertEquals([facts["its flags"], facts.KVM], ["vmx ept", "kvm_intel, nested=Y"]);
  assertEquals(facts.virtualization, "ok: tried now: KVM booted a kernel");
  assertEquals(text.includes("/home/jo"), false);
  assertStringIncludes(facts.starts, "sbx create");
});

Deno.test("each running VM's start is there with its stages", () => {
  const boot_stages = [{ name: "machine started", ms: 574.4 }, { name: "ready", ms: 747 }];
  const starts = [{ accelerator: "kvm", started_by: "template", boot_stages }, { boot_stages: [] }];
  const facts = factsOf(hostFacts({ checks: [] }, starts, { read }));
  assertEquals(facts["start 1"], "kvm, template: machine started 574 ms, ready 747 ms");
  assertMatch(facts["start 2"], /^unknown, unknown/);
  assertEquals(facts.starts, undefined);
});

Deno.test("a host without processor fields, as arm64 without KVM's modules, is described too", () => {
  const facts = factsOf(hostFacts({ checks: [] }, [], {
    read: (path) =>
      path === "/proc/cpuinfo" ? "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n" : "",
  }));
  assertEquals(facts.processor, "0x41, 0xd0c");
  assertEquals([facts["its flags"], facts.KVM], ["none of virtualization", "no module of x86_64"]);
});
