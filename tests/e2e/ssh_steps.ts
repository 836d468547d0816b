/** The system's own SSH client in a VM, by the configuration that sbx prints. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { Random } from "../helper/random.ts";
import type { Sbx } from "../helper/sbx.ts";

const BYTES = 3 * 1024 * 1024;

export async function sshSteps(t: Deno.TestContext, sbx: Sbx, vm: string): Promise<void> {
  const config = join(sbx.home, "ssh-config");
  const text = await sbx.ok("ssh-config", vm, "--alone");
  await Deno.writeTextFile(config, text);
  const client = async (program: string, ...args: string[]) => {
    const { code, stdout, stderr } = await runChild(program, { args: ["-F", config, ...args], env: sbx.env });
    const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    return { code, stdout: decode(stdout), stderr: decode(stderr) };
  };
  const ssh = (...args: string[]) => client("ssh", ...args);

  await t.step("SSH runs a program as sbx exec does, with the VM's variables and its exit code", async () => {
    assertEquals(await ssh(`${vm}.sbx`, 'hostname; id -un; echo "$QUOTED"; umask; exit 9'), {
      code: 9,
      stdout: `${vm}\nroot\na "b" \\c $d\n0022\n`,
      stderr: "",
    });
    assertStringIncludes(await sbx.ok("events", vm, "--process", "sbx-sshd"), "sbx-sshd ssh-ed25519");
  });

  await t.step("scp brings a file there and back unchanged", async () => {
    const [there, back] = ["there", "back"].map((name) => join(sbx.home, name));
    await Deno.writeFile(there, new Random(5).bytes(BYTES));
    assertEquals((await client("scp", "-q", there, `${vm}.sbx:/root/copied`)).code, 0);
    assertEquals((await client("scp", "-q", `${vm}.sbx:/root/copied`, back)).code, 0);
    assertEquals(await Deno.readFile(back), await Deno.readFile(there));
  });

  await t.step("the guest gets no way back to the host", async () => {
    const remote = await ssh("-R", "8001:127.0.0.1:1", "-o", "ExitOnForwardFailure=yes", `${vm}.sbx`, "true");
    assertEquals(remote.code, 255);
    assertStringIncludes(remote.stderr, "remote port forwarding failed");
    await Deno.writeTextFile(config, await sbx.ok("ssh-config", vm));
    const beside = await ssh("-R", "8001:127.0.0.1:1", "-o", "ExitOnForwardFailure=yes", `${vm}.sbx`, "true");
    assertEquals([beside.code, beside.stderr], [0, ""], "the client asks for no forward at all");
    const agent = await ssh("-A", `${vm}.sbx`, 'echo "${SSH_AUTH_SOCK-none}"');
    assertEquals(agent.stdout, "none\n");
  });

  await t.step("nobody without the home's key gets in", async () => {
    const other = join(sbx.home, "other");
    await runChild("ssh-keygen", { args: ["-q", "-t", "ed25519", "-N", "", "-f", other] });
    await Deno.writeTextFile(config, text.replace(/IdentityFile .*/, `IdentityFile ${other}`));
    const { code, stderr } = await ssh("-o", "BatchMode=yes", `${vm}.sbx`, "true");
    assertEquals(code, 255);
    assertStringIncludes(stderr, "Permission denied (publickey)");
    assert((await sbx.cli("ssh-config", "nobody")).stderr.includes('no VM is called "nobody"'));
  });
}
