/**
 * SSH through the host: servers that are other ones, old algorithms, agents that
 * lie, and guests that ask for more.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { readSshSecret } from "../../../lib/credential/ssh/mod.ts";
import { parsePublicKey, publicKeyOf } from "../../../lib/base/ssh/mod.ts";
import { loadSsh2 } from "../../../lib/network/ssh/library.ts";
import { eventually } from "../../helper/sbx.ts";
import { type Ran, SSH_USER, sshCredential, sshKey, SshServer, sshWorld } from "../../helper/sshd.ts";

const EXEC = `[profiles.rules.exec]
name = "exec"
action = "allow"
match = 'http.request.ssh.kind == "exec"'
`;

/** A server of TCP that gives each client these bytes. */
function bannerServer(text: string): { port: number; close(): void } {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  (async () => {
    for await (const conn of listener) {
      await conn.write(new TextEncoder().encode(text)).catch(() => {});
      await conn.read(new Uint8Array(4096)).catch(() => {});
      conn.close();
    }
  })();
  return { port: listener.addr.port, close: () => listener.close() };
}

Deno.test("a server with another host key gets nothing of the user", async (t) => {
  await using server = await SshServer.start();
  const other = await sshKey(server.dir, "pinned");
  const pinned = (await Deno.readTextFile(`${other}.pub`)).split(" ").slice(0, 2).join(" ");
  const credential = await sshCredential(server, { host_keys: [pinned] });

  await t.step("a changed key: both fingerprints, and no attempt to log in", async () => {
    await using guest = await sshWorld(server, [credential], { rules: EXEC });
    const ran = await guest.ssh("echo hi");
    assertEquals([ran.code, ran.stdout], [126, ""]);
    const fingerprints = [server.hostKey, pinned].map((line) => {
      const { stdout } = new Deno.Command("sh", {
        args: ["-c", `echo '${line}' | ssh-keygen -l -f -`],
      }).outputSync();
      return new TextDecoder().decode(stdout).split(" ")[1];
    });
    assertStringIncludes(
      ran.stderr,
      `sbx: db.example.com has another host key than its credential: ${fingerprints[0]} in place of ` +
        `${fingerprints[1]}; it got nothing`,
    );
    await guest.world.net.idle();
    assert(!/publickey|user /.test(server.log), server.log);
    const errors = guest.world.net.gate.entries.flatMap(({ outcome }) => outcome?.error ?? []);
    assertEquals(errors.length, 1);
    assert(!guest.world.net.gate.entries.some(({ event: { credential } }) => credential));
  });

  await t.step("a server that shows a pinned key and has another", async () => {
    const ssh2 = await loadSsh2();
    const own = ssh2.utils.parseKey(await Deno.readTextFile(await sshKey(server.dir, "own")));
    const { blob } = parsePublicKey(server.hostKey)!;
    const { Buffer } = await import("node:buffer");
    Object.assign(Array.isArray(own) ? own[0] : own, { getPublicSSH: () => Buffer.from(blob) });
    let attempts = 0;
    const { createServer } = await import("node:net");
    const fake = new ssh2.Server({ hostKeys: [{ key: Array.isArray(own) ? own[0] : own }] });
    fake.on("connection", (client) => {
      client.on("authentication", (context) => {
        attempts++;
        context.accept();
      });
      client.on("error", () => {});
    });
    const listener = createServer((socket) => fake.injectSocket(socket)).listen(0, "127.0.0.1");
    await new Promise((resolve) => listener.once("listening", resolve));
    const { port } = listener.address() as { port: number };
    await using guest = await sshWorld({ port }, [await sshCredential(server)], { rules: EXEC });
    const ran = await guest.ssh("echo hi");
    assertEquals([ran.code, ran.stdout, attempts], [126, "", 0], ran.stderr);
    assertStringIncludes(ran.stderr, "sbx: db.example.com shows its host key and has not the private one");
    await guest.world.net.idle();
    listener.close();
  });

  await t.step("no SSH, or an old one", async () => {
    for (const banner of ["SSH-1.5-old\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", ""]) {
      const old = bannerServer(banner);
      await using guest = await sshWorld(old, [credential], { rules: EXEC });
      const ran = await guest.ssh("echo hi");
      assertEquals(ran.code, 126);
      assertStringIncludes(ran.stderr, "ended the SSH connection before the login");
      await guest.world.net.idle();
      old.close();
    }
  });
});

Deno.test("old algorithms are used on neither side", async (t) => {
  const failed = ({ code, stderr }: Ran, expected: string) => {
    assertEquals(code, 126);
    assertStringIncludes(stderr, expected);
  };
  for (
    const line of [
      "KexAlgorithms diffie-hellman-group14-sha1,diffie-hellman-group1-sha1",
      "Ciphers aes128-cbc,3des-cbc",
      "MACs hmac-sha1,hmac-md5\nCiphers aes128-ctr",
    ]
  ) {
    await t.step(`a server with ${line.split("\n")[0]}`, async () => {
      await using server = await SshServer.start([line]);
      await using guest = await sshWorld(server, [await sshCredential(server)], { rules: EXEC });
      failed(await guest.ssh("echo hi"), "db.example.com speaks old algorithms only (no matching");
      await guest.world.net.idle();
    });
  }

  await t.step("a server that takes signatures with SHA-1 only", async () => {
    const rsa = ["-t", "rsa", "-b", "2048"];
    await using server = await SshServer.start(["PubkeyAcceptedAlgorithms ssh-rsa"], rsa, rsa);
    await using guest = await sshWorld(server, [await sshCredential(server)], { rules: EXEC });
    failed(await guest.ssh("echo hi"), "does not accept the key of this machine's credential");
    await guest.world.net.idle();
  });

  await t.step("RSA keys of user and server, with SHA-2", async () => {
    const rsa = ["-t", "rsa", "-b", "2048"];
    await using server = await SshServer.start([], rsa, rsa);
    await using guest = await sshWorld(server, [await sshCredential(server)], { rules: EXEC });
    assertEquals(await guest.ssh("echo hi"), { code: 0, stdout: "hi\n", stderr: "" });
    await guest.world.net.idle();
  });

  await t.step("a guest that offers old ones only", async () => {
    await using server = await SshServer.start();
    await using guest = await sshWorld(server, [await sshCredential(server)], { rules: EXEC });
    for (
      const option of [
        "KexAlgorithms=diffie-hellman-group14-sha1",
        "Ciphers=aes128-cbc",
        "HostKeyAlgorithms=ssh-rsa",
      ]
    ) {
      const ran = await guest.ssh("-o", option, "echo hi");
      assertEquals([ran.code, ran.stdout], [255, ""]);
      assertStringIncludes(ran.stderr, "no matching");
    }
    const mac = await guest.ssh("-o", "Ciphers=aes128-ctr", "-o", "MACs=hmac-sha1", "echo hi");
    assertStringIncludes(mac.stderr, "no matching MAC found");
    await guest.world.net.idle();
  });
});

Deno.test("keys that are another's, revoked, or held by an agent that lies", async (t) => {
  await using server = await SshServer.start();
  const credential = await sshCredential(server);

  await t.step("a VM without the grant has no way to the server, and no key", async () => {
    await using guest = await sshWorld(server, [credential], { rules: EXEC, providers: ["github"] });
    const ran = await guest.ssh("echo hi");
    assertEquals([ran.code, ran.stdout], [255, ""]);
    await guest.world.net.idle();
    const [{ event, decision }] = guest.world.net.gate.entries;
    assertEquals([event.http?.request.scheme, decision?.rule.id], ["tcp", "block-raw-tcp"]);
  });

  await t.step("revoking a key ends its connections", async () => {
    await using guest = await sshWorld(server, [credential], { rules: EXEC });
    const child = new Deno.Command("ssh", {
      args: [...guest.args, `${SSH_USER}@127.0.0.1`, "echo begun; exec cat"],
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = child.stdout.getReader();
    const { value } = await reader.read();
    assertEquals(new TextDecoder().decode(value), "begun\n");
    await guest.world.store.revoke(guest.world.refs[0]);
    assertEquals((await reader.read()).done, true);
    assertEquals((await child.status).code, 255);
    await child.stdin.close().catch(() => {});
    await guest.world.net.idle();
  });

  await t.step("an agent that holds the key logs in; one that is another's does not", async () => {
    for (const [added, code] of [["user", 0], ["other", 126]] as const) {
      const socket = join(server.dir, `agent-${added}`);
      const agent = new Deno.Command("ssh-agent", {
        args: ["-D", "-a", socket],
        stdout: "piped",
        stderr: "null",
      })
        .spawn();
      await agent.stdout.getReader().read();
      if (added === "other") await sshKey(server.dir, "other");
      await new Deno.Command("ssh-add", {
        args: ["-q", join(server.dir, added)],
        env: { SSH_AUTH_SOCK: socket },
      })
        .output();
      await using guest = await sshWorld(server, [await sshCredential(server, {}, socket)], { rules: EXEC });
      const ran = await guest.ssh("echo hi");
      assertEquals(ran.code, code, ran.stderr);
      if (code !== 0) {
        assertStringIncludes(ran.stderr, `the SSH agent at ${socket} does not sign with SHA256:`);
      }
      await guest.world.net.idle();
      agent.kill("SIGKILL");
      await agent.status;
    }
  });

  await t.step("a key that the server does not take", async () => {
    const secret = await readSshSecret(await Deno.readTextFile(await sshKey(server.dir, "unknown")));
    const unknown = {
      ...credential,
      secret,
      ssh: { ...credential.ssh!, public_key: publicKeyOf(secret).line },
    };
    await using guest = await sshWorld(server, [unknown], { rules: EXEC });
    const ran = await guest.ssh("echo hi");
    assertEquals(ran.code, 126);
    assertStringIncludes(ran.stderr, "db.example.com does not accept the key of this machine's credential");
    await guest.world.net.idle();
  });
});

Deno.test("a guest that asks for more", async (t) => {
  await using server = await SshServer.start(["MaxSessions 100"]);
  const credential = await sshCredential(server);

  await t.step("sessions beyond the limit of a connection are refused, and no others", async () => {
    await using guest = await sshWorld(server, [credential], { rules: EXEC });
    const ssh2 = await loadSsh2();
    const client = new ssh2.Client();
    const ready = Promise.withResolvers<void>();
    client.on("ready", () => ready.resolve());
    client.on("error", (error) => ready.reject(error));
    client.connect({ host: "127.0.0.1", port: guest.world.port, username: SSH_USER });
    await ready.promise;
    let opened = 0;
    let refused = 0;
    const all = Array.from(
      { length: 20 },
      () =>
        new Promise<void>((resolve) =>
          client.exec("cat", {}, (error) => {
            if (error) refused++;
            else opened++;
            resolve();
          })
        ),
    );
    await Promise.all(all);
    assertEquals([opened, refused], [8, 12]);
    client.end();
    await guest.world.net.idle();
  });

  await t.step("a guest that reads nothing does not fill this machine's memory", async () => {
    await using guest = await sshWorld(server, [credential], { rules: EXEC });
    const child = new Deno.Command("ssh", {
      args: [...guest.args, `${SSH_USER}@127.0.0.1`, "head -c 200000000 /dev/zero"],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    const sizes = new Set<number>();
    // The server is held back once the same number of bytes has passed for a while.
    await eventually("the flow stops", () => {
      const size = Deno.memoryUsage().rss;
      sizes.add(size);
      return sizes.size > 5;
    }, 20);
    // It may fall too: other tests of this process leave memory that is collected meanwhile.
    const [first] = sizes;
    assert(Math.max(...sizes) - first < 100_000_000, [...sizes].join(" "));
    child.kill("SIGKILL");
    await child.status;
    await guest.world.net.idle();
  });

  await t.step("a guest that never takes part in the key exchange is let go", async () => {
    await using guest = await sshWorld(server, [credential], { rules: EXEC, timeouts: { handshake: 100 } });
    const conn = await Deno.connect({ hostname: "127.0.0.1", port: guest.world.port });
    await conn.write(new TextEncoder().encode("SSH-2.0-slow\r\n"));
    const buffer = new Uint8Array(65_536);
    while (await conn.read(buffer).catch(() => null) !== null);
    conn.close();
    await guest.world.net.idle();
  });
});
