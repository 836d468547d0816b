/** Both SDKs through a real sshd to another home's sbx. Needs no VM. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { Sbx } from "../helper/sbx.ts";
import { SSH_USER, SshServer } from "../helper/sshd.ts";
import { Driver, LANGUAGES, SdkError } from "./driver.ts";

Deno.test("the SDKs reach the sbx of another machine by ssh, and the way ends with them", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  await using sshd = await SshServer.start();
  const bin = await Deno.makeTempDir({ prefix: "sbx-ssh-" });
  try {
    await sbx.ok("start");
    // An ssh that knows this server and its key, since its configuration is a person's own.
    const known = join(bin, "known_hosts");
    await Deno.writeTextFile(known, `[127.0.0.1]:${sshd.port} ${sshd.hostKey}\n`);
    const options =
      `-i ${sshd.userKey} -o IdentitiesOnly=yes -o UserKnownHostsFile=${known} -o BatchMode=yes`;
    await Deno.writeTextFile(join(bin, "ssh"), `#!/bin/sh\nexec /usr/bin/ssh ${options} "$@"\n`);
    await Deno.chmod(join(bin, "ssh"), 0o755);
    const env = { ...sbx.env, PATH: `${bin}:${Deno.env.get("PATH")}`, TMPDIR: bin };
    for (const language of LANGUAGES) {
      await t.step(language, async () => {
        const host = `ssh://${SSH_USER}@127.0.0.1:${sshd.port}`;
        {
          await using sdk = new Driver(language, env);
          const { client } = await sdk.call("connect", { host: host + sbx.home });
          assertEquals(await sdk.call("list", { client }), []);
          const refused = await assertRejects(
            () => sdk.call("create", { client, dockerfile: "." }),
            SdkError,
          );
          assertEquals(refused.reply.code, "request.invalid");
          const nowhere = await assertRejects(
            () => sdk.call("connect", { host: `${host}/no/such/home` }),
            SdkError,
          );
          assertEquals(nowhere.reply.code, "host.unreachable");
        }
        const left = Array.from(Deno.readDirSync(bin), ({ name }) => name).filter((name) =>
          /^sbx-host-/.test(name)
        );
        assertEquals(left, []);
      });
    }
  } finally {
    await sbx.dispose();
    await Deno.remove(bin, { recursive: true });
  }
});
