/** A VM's life under KVM: its starts, the work in it, its network and its folder. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { exists } from "../helper/exists.ts";
import { median } from "../helper/statistics.ts";
import { TestUpstreams } from "../helper/upstream.ts";
import { DEV, type Scenario, stagesOf, type World } from "./world.ts";

/** Starts from a template. */
const STARTS = 4;
/**
 * Size of a copied file, in `MB`, and number of files in a workspace. Each byte is
 * hashed on both sides, in emulation.
 */
const COPY_MB = 10, FILES = 1000;

const RULES = `
[profiles.rules.no-delete]
action = "block"
match = 'http.request.host == "site.example" && http.request.method == "DELETE"'

[profiles.rules.no-name]
action = "block"
match = 'dns.request.qname == "blocked.example"'
`;

export const LIFE: Scenario[] = [
  {
    name: "sbx doctor and sbx status name KVM",
    run: async ({ sbx }) => {
      assertMatch(await sbx.ok("status"), /\bkvm\b.*KVM booted a kernel/);
      assertMatch((await sbx.cli("doctor")).stdout, /✓ virtualization: tried now: KVM booted a kernel/);
    },
  },
  {
    name: "a VM boots cold, with the host's clock and without virtualization of its own",
    run: async (world) => {
      await world.set({ "vm.templates.enabled": false });
      try {
        assertEquals(await world.sbx.ok("run", "--", "sh", "-c", "echo $((6 * 7))"), "42\n");
        await world.create("cold");
        return stagesOf(await world.requireKvm("cold", "cold"));
      } finally {
        await world.set({ "vm.templates.enabled": true });
        await world.clear("cold");
      }
    },
  },
  {
    name: `a template is made, and ${STARTS} VMs start from it`,
    seconds: 600,
    run: async (world) => {
      await world.sbx.ok("template", "make");
      const ready: number[] = [];
      let stages = "";
      for (let i = 1; i <= STARTS; i++) {
        const name = `from-${i}`;
        const info = await world.create(name);
        assertEquals([info.accelerator, info.started_by], ["kvm", "template"], info.started_why);
        assertEquals(await world.sh(name, "hostname"), name);
        // The guest's view is the same one each time.
        if (i === 1) await world.requireGuest(name);
        ready.push(info.boot_stages.at(-1).ms);
        stages = stagesOf(info);
        await world.clear(name);
      }
      return `ready after ${Math.round(median(ready))} ms (median), ${
        Math.round(Math.max(...ready))
      } at most; ` +
        `the last one: ${stages}`;
    },
  },
  {
    name: "programs run, and a terminal opens",
    run: async (world) => {
      await world.dev();
      const { code, stdout, stderr } = await world.sbx.cli(
        "exec",
        DEV,
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
      );
      assertEquals([code, stdout, stderr.trim()], [7, "out\n", "err"]);
      const { output } = await runTerminal(
        world,
        `exec bin/sbx shell ${DEV} -- sh -c 'tty; echo $((40 + 2))'`,
      );
      assertMatch(output, /\/dev\/pts\/\d[\s\S]*\b42\b/);
    },
  },
  {
    name: `${COPY_MB} MB are copied in and out, unchanged`,
    run: async (world) => {
      await world.dev();
      const folder = await Deno.makeTempDir({ dir: world.sbx.home });
      const [there, back] = ["there", "back"].map((name) => join(folder, name));
      using file = await Deno.open(there, { create: true, write: true });
      const block = new Uint8Array(50_000);
      for (let done = 0; done < COPY_MB * 1_000_000; done += block.length) {
        crypto.getRandomValues(block);
        await file.write(block);
      }
      const begun = performance.now();
      await world.sbx.ok("cp", there, `${DEV}:/root/copy`);
      const between = performance.now();
      await world.sbx.ok("cp", `${DEV}:/root/copy`, back);
      const ended = performance.now();
      const { success } = await runChild("cmp", { args: [there, back] });
      assert(success, "what came back is what was sent");
      await world.sh(DEV, "rm /root/copy");
      await Deno.remove(folder, { recursive: true });
      return `in ${seconds(between - begun)} s, out ${seconds(ended - between)} s`;
    },
  },
  {
    name: `a workspace with ${FILES} files is the same on both sides`,
    run: async (world) => {
      const { workspace } = await world.dev();
      const numbers = Array.from({ length: FILES }, (_, at) => at);
      await Deno.mkdir(join(workspace, "host"), { recursive: true });
      for (const number of numbers) {
        await Deno.writeTextFile(join(workspace, `host/${number}`), `${number}\n`);
      }
      assertEquals(
        await world.sh(DEV, "cat host/* | sort -n | sha256sum; ls host | wc -l"),
        `${await sumOf(numbers)}  -\n${FILES}`,
      );
      await world.sh(DEV, `mkdir -p guest; for n in $(seq 0 ${FILES - 1}); do echo $n >guest/$n; done`);
      const written = await Promise.all(
        numbers.map(async (number) => Number(await Deno.readTextFile(join(workspace, `guest/${number}`)))),
      );
      assertEquals(written, numbers);
    },
  },
  {
    name: "requests and lookups go through the rules, and are recorded",
    run: async (world) => {
      const { sbx } = world;
      const upstreams = await TestUpstreams.make(["site.example"], ({ url }) => Response.json({ url }));
      try {
        await world.set({
          "network.upstream_overrides": upstreams.overrides,
          "network.extra_ca_file": upstreams.caFile,
        });
        const profile = join(sbx.home, "profiles/ruled/profile.toml");
        if (!await exists(profile)) {
          await sbx.ok("profile", "copy", "code", "ruled");
          await Deno.writeTextFile(profile, RULES, { append: true });
        }
        await world.create("ruled", { profile_id: "ruled" });
        assertStringIncludes(await world.sh("ruled", "curl -sS https://site.example/seen"), "/seen");
        const refused = await world.sh(
          "ruled",
          "curl -sS -w '%{http_code}' -X DELETE https://site.example/x",
        );
        assert(refused.endsWith("403"), refused);
        assertEquals(await world.sh("ruled", "getent hosts blocked.example || echo blocked"), "blocked");
        assertEquals(upstreams.received.map(({ method }) => method), ["GET"]);
        assertStringIncludes(await sbx.ok("net", "ruled"), "https://site.example/seen");
        await sbx.ok("verify", "ruled");
      } finally {
        await world.clear("ruled");
        // The next VMs need no file that is gone.
        await world.set({ "network.upstream_overrides": null, "network.extra_ca_file": null });
        await upstreams.close();
      }
    },
  },
];

/** Runs a line of shell with a terminal. */
async function runTerminal({ sbx }: World, line: string): Promise<{ code: number; output: string }> {
  const { code, stdout } = await runChild("script", { args: ["-qefc", line, "/dev/null"], env: sbx.env });
  return { code, output: new TextDecoder().decode(stdout) };
}

/** Hexadecimal SHA-256 of numbers, each on a line. */
async function sumOf(numbers: number[]): Promise<string> {
  const text = numbers.map((number) => `${number}\n`).join("");
  const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(sum).toHex();
}

const seconds = (ms: number) => (ms / 1000).toFixed(1);
