/** Users of the machine with KVM who are not root: in the group kvm, and not. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import type { Ran } from "../helper/sbx.ts";
import { fromRoot } from "../helper/repo.ts";
import type { Info, Scenario, World } from "./world.ts";

const DEVICE = "/dev/kvm";
/** Permissions of the device: for the group kvm, for root, and for each user. */
const GROUP = 0o660, ROOT = 0o600, EACH = 0o666;

/** Line of `sbx status` of a user outside of the group. */
const EMULATED = /tcg.*this user may not open \/dev\/kvm/;

export const USERS: Scenario[] = [
  {
    name: "a user in the group kvm: KVM is taken away, its memory is refused and kept, and resumes under KVM",
    seconds: 420,
    run: async (world) => {
      await using user = await User.make(world, "with");
      await user.ok("create", "own", "--cpus", "1");
      assertEquals((await user.info("own")).accelerator, "kvm");
      await user.ok("exec", "own", "--", "sh", "-c", "echo kept >/dev/shm/kept");
      await user.ok("suspend", "own");
      await Deno.chmod(DEVICE, ROOT);
      try {
        const { code, stderr } = await user.sbx("resume", "own");
        assertEquals(code, 1);
        assertMatch(
          stderr,
          /a machine under kvm, and this host's machines are under tcg: this user may not open/,
        );
        assertStringIncludes(stderr, "sbx stop own gives its memory up");
        assertEquals((await user.info("own")).status, "Suspended");
      } finally {
        await Deno.chmod(DEVICE, GROUP);
      }
      await user.ok("resume", "own");
      const { accelerator, started_by } = await user.info("own");
      assertEquals([accelerator, started_by], ["kvm", "resume"]);
      assertEquals(await user.ok("exec", "own", "--", "cat", "/dev/shm/kept"), "kept\n");
    },
  },
  {
    name: "a user outside of it: status and doctor say why VMs are emulated",
    seconds: 600,
    run: async (world) => {
      await using user = await User.make(world, "without");
      await user.ok("start");
      assertMatch(await user.ok("status"), EMULATED);
      assertMatch((await user.sbx("doctor")).stdout, /this user may not open \/dev\/kvm/);
    },
  },
  {
    name: "a user outside of it: memory of an emulated VM stays emulated when the user gets KVM",
    // A VM that is emulated in an emulated machine boots in ten minutes.
    seconds: 3000,
    onRequest: true,
    run: async (world) => {
      await using user = await User.make(world, "without");
      await user.ok("create", "own", "--cpus", "1", "--ram", "512M");
      assertEquals((await user.info("own")).accelerator, "tcg");
      assertMatch(await user.ok("status"), EMULATED);
      await user.ok("exec", "own", "--", "sh", "-c", "echo kept >/dev/shm/kept");
      await user.ok("suspend", "own");
      await Deno.chmod(DEVICE, EACH);
      try {
        await user.ok("resume", "own");
        const { accelerator, started_by } = await user.info("own");
        assertEquals([accelerator, started_by], ["tcg", "resume"]);
        assertEquals(await user.ok("exec", "own", "--", "cat", "/dev/shm/kept"), "kept\n");
        await user.ok("stop", "own");
        await user.ok("start", "own");
        assertEquals((await user.info("own")).accelerator, "kvm");
      } finally {
        await Deno.chmod(DEVICE, GROUP);
      }
    },
  },
];

/** A user with a home of sbx, which is gone with this object. */
class User implements AsyncDisposable {
  private constructor(readonly name: string, readonly home: string) {}

  static async make({ assets }: World, name: string): Promise<User> {
    // A scenario that was not over in time may still use the last one.
    const home = await Deno.makeTempDir({ dir: `/home/${name}`, prefix: "sbx-" });
    const user = new User(name, home);
    const own = join(home, "assets");
    const copy = `mkdir -p "$1" && cp -r "$2" "$1/assets" && chown -R "$3:$3" "$1" && chmod -R go-w "$1"`;
    const { success, stderr } = await runChild("sh", { args: ["-euc", copy, "sh", home, assets, name] });
    if (!success) throw new Error(`${own}: ${new TextDecoder().decode(stderr)}`);
    return user;
  }

  async sbx(...args: string[]): Promise<Ran> {
    const env = [`SBX_HOME=${this.home}`, "SBX_GATEWAY_PORT=0", "NO_COLOR=1", `HOME=/home/${this.name}`];
    const factor = `SBX_TIME_FACTOR=${Deno.env.get("SBX_TIME_FACTOR") ?? "1"}`;
    const { code, stdout, stderr } = await runChild("runuser", {
      args: [
        "-u",
        this.name,
        "--",
        "env",
        "-u",
        "SBX_TEST_ASSETS_DIR",
        ...env,
        factor,
        fromRoot("bin/sbx"),
        ...args,
      ],
      cwd: "/",
    });
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  }

  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.sbx(...args);
    if (code !== 0) throw new Error(`${this.name}: sbx ${args.join(" ")} → ${code}\n${stdout}${stderr}`);
    return stdout;
  }

  async info(name: string): Promise<Info> {
    return JSON.parse(await this.ok("info", name, "--json"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sbx("stop", "--all");
    await Deno.remove(this.home, { recursive: true });
  }
}
