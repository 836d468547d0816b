/** Commands, files and shells over SSH: only what a rule names runs, whatever the client asks for. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import ssh2 from "ssh2";
import { SESSIONS_MAX } from "../../../../lib/network/ssh/limit.ts";
import { limitChild, runChild } from "../../../helper/child.ts";
import { httpResponse } from "../../../helper/gate.ts";
import { SSH_USER, sshCredential, SshServer, sshWorld } from "../../../helper/sshd.ts";

const rule = (id: string, match: string) =>
  `[profiles.rules.${id}]\nname = "${id}"\naction = "allow"\nmatch = '${match}'\n`;

Deno.test("sessions over SSH", async (t) => {
  await using server = await SshServer.start([
    "AllowTcpForwarding yes",
    "AllowAgentForwarding yes",
    "AcceptEnv *",
  ]);
  const credential = await sshCredential(server);
  const exec = rule(
    "status",
    'http.request.ssh.kind == "exec" && http.request.ssh.command.matches("^echo [a-z]+$")',
  );

  await t.step("without a rule that names it, nothing runs", async () => {
    await using guest = await sshWorld(server, [credential], {
      rules: rule("host", 'http.request.host == "db.example.com"'),
    });
    const logins = server.log.split("Accepted publickey").length;
    const ran = await guest.ssh("echo", "hi");
    assertEquals([ran.code, ran.stdout], [126, ""]);
    assertStringIncludes(
      ran.stderr,
      "sbx: blocked by policy: over SSH only git passes without a rule that names the command " +
        '(http.request.ssh) (rule "block-ssh-command")',
    );
    const shell = await guest.ssh();
    assertStringIncludes(shell.stderr, 'rule "block-ssh-command"');
    const sftp = await guest.ssh("-s", "sftp");
    assertStringIncludes(sftp.stderr, 'rule "block-ssh-command"');
    const subsystem = await guest.ssh("-s", "other");
    assertStringIncludes(subsystem.stderr, 'rule "block-ssh-command"');
    await guest.world.net.idle();
    assertEquals(server.log.split("Accepted publickey").length, logins);
    const seen = guest.world.net.gate.entries.map(({ event, decision }) => {
      const { method, scheme, ssh } = event.http!.request;
      return [method, scheme, ssh?.kind, ssh?.command, decision?.decision];
    });
    assertEquals(seen, [
      ["CONNECT", "ssh", "exec", "echo hi", "block"],
      ["CONNECT", "ssh", "shell", "", "block"],
      ["CONNECT", "ssh", "sftp", "sftp", "block"],
      ["CONNECT", "ssh", "subsystem", "other", "block"],
    ]);
  });

  await t.step(
    "a command that a rule names runs, with its output, errors, input and exit status",
    async () => {
      await using guest = await sshWorld(server, [credential], {
        rules: exec +
          rule("cat", 'http.request.ssh.command in ["cat; echo no >&2; exit 7", "kill -TERM $$"]'),
      });
      assertEquals(await guest.ssh("echo hi"), { code: 0, stdout: "hi\n", stderr: "" });
      const child = limitChild(
        new Deno.Command("ssh", {
          args: [...guest.args, `${SSH_USER}@127.0.0.1`, "cat; echo no >&2; exit 7"],
          stdin: "piped",
          stdout: "piped",
          stderr: "piped",
        }).spawn(),
      );
      const writer = child.stdin.getWriter();
      const sent = "x".repeat(5_000_000);
      const output = child.output();
      await writer.write(new TextEncoder().encode(sent));
      await writer.close();
      const { code, stdout, stderr } = await output;
      assertEquals(code, 7);
      assertEquals(new TextDecoder().decode(stderr), "no\n");
      assert(new TextDecoder().decode(stdout) === sent);
      assertEquals((await guest.ssh("kill -TERM $$")).code, 255);
      await guest.world.net.idle();
      const { entries } = guest.world.net.gate;
      assertEquals(entries.filter(({ outcome }) => outcome?.error).length, 0);
      const addresses = entries.filter(({ event }) => event.http).map((each) => httpResponse(each).address);
      assertEquals(new Set(addresses), new Set(["127.0.0.1"]));
    },
  );

  await t.step("a command next to the named one does not run", async () => {
    await using guest = await sshWorld(server, [credential], { rules: exec });
    for (
      const command of [
        "echo hi; id",
        "echo hi\nid",
        "id",
        `git-upload-pack '/x'; id`,
        "git-upload-archive 'x'",
      ]
    ) {
      const ran = await guest.ssh(command);
      assertEquals([ran.code, ran.stdout], [126, ""], command);
      assertStringIncludes(ran.stderr, 'rule "block-ssh-command"');
    }
    const dash = await guest.ssh("git-receive-pack '--receive-pack=id'");
    assertStringIncludes(dash.stderr, '"guard-ambiguous-path"');
    const long = await guest.ssh(`echo ${"x".repeat(9000)}`);
    assertStringIncludes(long.stderr, "a command line over SSH is longer than 8192 characters");
    await guest.world.net.idle();
  });

  await t.step("sftp, where a rule names it", async () => {
    await using guest = await sshWorld(server, [credential], {
      rules: rule("files", 'http.request.ssh.kind == "sftp"'),
    });
    const [from, to] = [join(server.dir, "from"), join(server.dir, "to")];
    await Deno.writeTextFile(from, "content");
    const { code, stderr } = await runChild("scp", {
      args: [
        "-q",
        ...guest.args.map((arg) => arg === "-p" ? "-P" : arg),
        from,
        `${SSH_USER}@127.0.0.1:${to}`,
      ],
    });
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    assertEquals(await Deno.readTextFile(to), "content");
    await guest.world.net.idle();
  });

  await t.step("a terminal, where a rule allows shells", async () => {
    await using guest = await sshWorld(server, [credential], {
      rules: rule("shell", 'http.request.ssh.kind in ["shell", "exec"]'),
    });
    const tty = await guest.ssh("-tt", "test -t 0 && echo terminal");
    assertEquals([tty.code, tty.stdout.trim()], [0, "terminal"], tty.stderr);
    await guest.world.net.idle();
  });

  await t.step("no forwarding, no variables, and another user gets no key", async () => {
    await using guest = await sshWorld(server, [credential], {
      rules: rule("all", 'http.request.ssh.kind == "exec"'),
    });
    const forward = await guest.ssh("-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:1", "echo hi");
    assertEquals([forward.code, forward.stdout], [255, ""]);
    assertStringIncludes(forward.stderr, "remote port forwarding failed");
    const jump = await guest.ssh("-W", `127.0.0.1:${server.port}`);
    assertEquals(jump.code, 255);
    assertStringIncludes(jump.stderr, "administratively prohibited");
    const { stdout } = await guest.ssh("-A", "-o", "SetEnv=LD_PRELOAD=/x", "echo $SSH_AUTH_SOCK$LD_PRELOAD");
    assertEquals(stdout, "\n");
    const other = await guest.sshAs("nobody", "echo hi");
    assertEquals(other.code, 126);
    assertStringIncludes(
      other.stderr,
      `the host has no SSH key for the user "nobody" there, only for "${SSH_USER}" ("guard-ssh")`,
    );
    await guest.world.net.idle();
  });

  await t.step("a client that closes a session again and again gets no more of them", async () => {
    await using guest = await sshWorld(server, [credential], { rules: exec });
    await using client = await RawClient.connect(guest.world.port);
    const first = await client.open();
    for (let i = 0; i < 20; i++) client.protocol.channelClose(first!);
    const opened = await Promise.all(Array.from({ length: 20 }, () => client.open()));
    // The library never forgets a session that ran nothing, so its place stays taken.
    assertEquals(opened.filter((id) => id !== undefined).length, SESSIONS_MAX - 1);
  });

  await t.step("a second command of a session does not run, and ends no other session", async () => {
    await using guest = await sshWorld(server, [credential], { rules: exec });
    await using client = await RawClient.connect(guest.world.port);
    const session = (await client.open())!;
    client.protocol.exec(session, "echo one", false);
    client.protocol.exec(session, "echo two", false);
    assertEquals(await client.run("echo three"), "three\n");
    await client.close();
    await guest.world.net.idle();
    const commands = guest.world.net.gate.entries.flatMap(({ event: { http } }) =>
      http?.request.ssh?.command ?? []
    );
    assertEquals(commands.toSorted(), ["echo one", "echo three"]);
  });
});

/** A client that sends what no ssh does. */
class RawClient {
  readonly #client;

  private constructor(client: InstanceType<typeof ssh2.Client>) {
    this.#client = client;
  }

  static async connect(port: number): Promise<RawClient> {
    const client = new ssh2.Client();
    const ready = Promise.withResolvers<void>();
    client.on("ready", ready.resolve).on("error", ready.reject);
    client.connect({ host: "127.0.0.1", port, username: SSH_USER });
    await ready.promise;
    return new RawClient(client);
  }

  get protocol() {
    return this.#client._protocol;
  }

  /** Opens a session. @returns the server's number of it; `undefined` where it is refused */
  open(): Promise<number | undefined> {
    const { promise, resolve } = Promise.withResolvers<number | undefined>();
    const onOpen = (error?: Error, channel?: { outgoing: { id: number } }) =>
      resolve(error ? undefined : channel!.outgoing.id);
    const id = this.#client._chanMgr.add(Object.assign(onOpen, { type: "session" }));
    this.protocol.session(id, 1 << 21, 1 << 15);
    return promise;
  }

  /** Output of a command. */
  run(command: string): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    let text = "";
    this.#client.on("close", () => reject(new Error("the connection ended")));
    this.#client.exec(command, (error: Error | undefined, channel: Duplex) => {
      if (error) return reject(error);
      channel.on("data", (bytes) => text += bytes).on("close", () => resolve(text));
    });
    return promise;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#client.once("close", resolve));
    this.#client.end();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#client.destroy();
    return Promise.resolve();
  }
}
