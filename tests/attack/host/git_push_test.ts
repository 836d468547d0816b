/**
 * Twelve ways to push to a protected ref past a rule on refs, with the real git and raw
 * requests: none reaches the upstream.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { joinBytes } from "../../../lib/base/bytes/mod.ts";
import { FLUSH, formatPacket } from "../../../lib/network/git/push.ts";
import { git, GIT_HOST as HOST, gitOk, withGitGuest } from "../../helper/git.ts";

const RULES = `[profiles.rules.no-main]
name = "pushes to protected refs"
action = "block"
reason = "main is protected"
match = '''http.request.git.updates.exists(update, update.ref.lowerAscii() == "refs/heads/main" ||
  update.ref.startsWith("refs/for/") || update.ref.startsWith("refs/tags/"))'''
`;

const isPush = (line: string) => line.startsWith("POST") && line.toLowerCase().includes("receive-pack");

Deno.test("pushes of the real git to a protected ref are refused, and say why", () =>
  withGitGuest(RULES, async ({ server, net }) => {
    await gitOk(server.work, "tag", "v1");
    const other = await gitOk(server.work, "commit-tree", "HEAD^{tree}", "-m", "other");
    const before = await server.refs();
    const pushes = [
      ["origin", "HEAD:main"],
      ["origin", "HEAD:refs/heads/main"],
      ["--force", "origin", `${other}:main`],
      ["origin", ":main"],
      ["--tags", "origin"],
      ["--mirror", "origin"],
      ["origin", "HEAD:dev", "HEAD:main"],
      ["--atomic", "origin", "HEAD:dev", "HEAD:main"],
      ["--push-option=ci.skip", "origin", "HEAD:main"],
      ["origin", "HEAD:refs/for/main%submit"],
      ["origin", "HEAD:refs/heads/Main"],
    ];
    for (const args of pushes) {
      const { code, text } = await git(server.work, ["push", ...args]);
      assertEquals(code, 1, `${args.join(" ")}: ${text}`);
      assertStringIncludes(text, 'remote: blocked by policy: main is protected (rule "no-main"); ');
      assertStringIncludes(text, "[remote rejected]", args.join(" "));
    }
    assertEquals(server.received.filter(isPush), []);
    // Before chunks git asks with an empty list of commands whether it may.
    const chunked = await git(server.work, ["-c", "http.postBuffer=1", "push", "origin", "HEAD:main"]);
    assertStringIncludes(chunked.text, "main is protected");
    assertEquals(server.received.filter(isPush), ["POST /repo.git/git-receive-pack 4"]);
    assertEquals(await server.refs(), before);
    const blocked = net.gate.entries.filter(({ decision }) => decision?.decision === "block");
    assertEquals(blocked.length, pushes.length + 1);
    assertEquals(blocked[0].event.http!.request.git!.updates.map(({ kind, ref }) => [kind, ref]), [
      ["update", "refs/heads/main"],
    ]);
    // Other refs pass, also in chunks.
    await gitOk(server.work, "push", "origin", "HEAD:dev");
    await gitOk(server.work, "-c", "http.postBuffer=1", "push", "origin", "HEAD:topic");
    assertStringIncludes(await server.refs(), "refs/heads/topic");
    assertStringIncludes(await gitOk(server.work, "ls-remote", "origin"), "topic");
  }));

const [A, B] = ["a".repeat(40), "b".repeat(40)];
const COMMANDS = joinBytes([formatPacket(`${A} ${B} refs/heads/main\0report-status`), FLUSH]);

async function gzip(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes.slice()]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

Deno.test("pushes that hide their refs are refused before a byte is sent", () =>
  withGitGuest(RULES, async ({ server, net, port }) => {
    const packed = await gzip(COMMANDS);
    const path = "/repo.git/git-receive-pack";
    const type = "content-type: application/x-git-receive-pack-request";
    const half = COMMANDS.subarray(0, 30);
    const requests: [string, string[], Uint8Array][] = [
      [`POST ${path}`, [type, "content-encoding: gzip"], packed],
      [`POST ${path}`, [type, "content-encoding: x-gzip"], packed],
      [`POST ${path}`, [type, "content-encoding: br"], COMMANDS],
      [`POST ${path}`, [type, "content-encoding: gzip, gzip"], await gzip(packed)],
      [`POST ${path}`, [type, "content-encoding: gzip"], packed.subarray(0, 20)],
      [`POST ${path}`, [type], half],
      [`POST ${path}`, [], COMMANDS],
      [`POST /repo.git/Git-Receive-Pack`, [type], COMMANDS],
      [`POST /repo.git%2Fgit%2Dreceive-pack`, [type], COMMANDS],
      [`POST /x`, [type], COMMANDS],
      [`PUT /repo.git/refs/heads/main`, [], new TextEncoder().encode(`${B}\n`)],
      [`LOCK /repo.git/refs/heads/main`, [], new Uint8Array(1)],
      [
        `MOVE /repo.git/refs/heads/x`,
        [`destination: http://${HOST}/repo.git/refs/heads/main`],
        new Uint8Array(1),
      ],
      [`PUT /repo.git/packed-refs`, [], new Uint8Array(1)],
      [`DELETE /repo.git/refs/heads/main`, [], new Uint8Array(1)],
    ];
    for (const [line, headers, body] of requests) {
      const client = await net.client(port);
      const head = [
        `${line} HTTP/1.1`,
        `Host: ${HOST}:${port}`,
        `content-length: ${body.length}`,
        ...headers,
      ];
      await client.send(head.join("\r\n") + "\r\n\r\n");
      await client.send(body);
      const { body: answer } = await client.answer();
      assertStringIncludes(answer, "block", line);
      const { decision } = net.gate.entries.at(-1)!;
      assertEquals(decision?.decision, "block", `${line} ${headers}`);
      assert(["no-main", "guard-git"].includes(decision!.rule.id), `${line}: ${decision!.rule.id}`);
      client.close();
    }
    assertEquals(server.received, []);
  }));

Deno.test("where no rule reads refs, a push that cannot be read is sent", () =>
  withGitGuest("", async ({ server, net, port }) => {
    const client = await net.client(port);
    await client.send(`POST /repo.git/git-receive-pack HTTP/1.1\r\nHost: ${HOST}:${port}\r\n`);
    await client.ask(`content-type: application/x-git-receive-pack-request\r\ncontent-length: 4\r\n\r\nzzzz`);
    client.close();
    assertEquals([server.received.length, net.gate.entries[0].event.http!.request.git], [1, undefined]);
  }));
