import { assert, assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { blake3 } from "../../../../lib/base/hash/mod.ts";
import { download, fetchSmall } from "../../../../lib/base/download/mod.ts";
import { exists } from "../../../helper/exists.ts";
import { Random } from "../../../helper/random.ts";
import { head, type RawAnswer, RawServer } from "../../../helper/raw_server.ts";

/** Longer than one chunk of any reader. */
const BYTES = new Random(3).bytes(300_000);
const CONTENT = {
  size: BYTES.length,
  blake3: blake3(BYTES),
  sha256: createHash("sha256").update(BYTES).digest("hex"),
};
/** Pace at which a test does not wait long for a slow server, and a busy machine keeps up. */
const PACE = { ms: 1000, bytes: 1000 };

/** A folder for one file. */
class Folder implements AsyncDisposable {
  private constructor(readonly dir: string) {}

  static async make(): Promise<Folder> {
    return new Folder(await Deno.makeTempDir());
  }

  get path(): string {
    return join(this.dir, "file");
  }

  async fetch(sources: URL[], content = CONTENT): Promise<void> {
    await download({ what: "the file", sources, path: this.path, content, pace: PACE });
  }

  async code(sources: URL[], content = CONTENT): Promise<string> {
    const error = await assertRejects(() => this.fetch(sources, content), SbxError);
    assert(!await exists(this.path), "a file that is not verified has its final name");
    return `${error.code}: ${error.message}`;
  }

  async [Symbol.asyncDispose]() {
    await Deno.remove(this.dir, { recursive: true });
  }
}

/** Answers as an honest server does, with ranges. */
const honest: RawAnswer = async ({ headers }, write) => {
  const start = Number(headers.get("range")?.match(/\d+/)?.[0] ?? 0);
  const length = { "content-length": BYTES.length - start };
  await write(
    start > 0
      ? head(206, { ...length, "content-range": `bytes ${start}-${BYTES.length - 1}/${BYTES.length}` })
      : head(200, length),
  );
  await write(BYTES.subarray(start));
};

/** Sends the beginning, then closes. */
const cut = (bytes: number): RawAnswer => async (_, write) => {
  await write(head(200, { "content-length": BYTES.length }));
  await write(BYTES.subarray(0, bytes));
};

Deno.test("a file is fetched, and verified by size, BLAKE3 and SHA-256", async () => {
  using server = new RawServer(honest);
  await using folder = await Folder.make();
  await folder.fetch([server.url()]);
  assertEquals(await Deno.readFile(folder.path), BYTES);
  assertEquals((await Deno.stat(folder.path)).mode! & 0o777, 0o600);
  assertEquals([...Deno.readDirSync(folder.dir)].length, 1);
});

for (const wrong of ["blake3", "sha256"] as const) {
  Deno.test(`a wrong ${wrong} is refused`, async () => {
    using server = new RawServer(honest);
    await using folder = await Folder.make();
    const code = await folder.code([server.url()], { ...CONTENT, [wrong]: "0".repeat(64) });
    assert(code.startsWith("assets.mismatch"), code);
    assertEquals([...Deno.readDirSync(folder.dir)], []);
  });
}

Deno.test("a download that broke off is continued, by another address too", async () => {
  using first = new RawServer(cut(100_000));
  using second = new RawServer(honest);
  await using folder = await Folder.make();
  await folder.fetch([first.url(), second.url()]);
  assertEquals(second.requests[0].headers.get("range"), "bytes=100000-");
  assertEquals(await Deno.readFile(folder.path), BYTES);
});

/** Servers that do not continue as asked; what arrives is right all the same. */
const RANGE_LIES: Record<string, RawAnswer> = {
  "ignores the range": async (_, write) => {
    await write(head(200, { "content-length": BYTES.length }));
    await write(BYTES);
  },
  "sends another range": async (request, write) => {
    if (!request.headers.has("range")) return await honest(request, write);
    await write(head(206, { "content-range": `bytes 0-9/${BYTES.length}`, "content-length": 10 }));
    await write(BYTES.subarray(0, 10));
  },
  "sends the range of a longer file": async (request, write) => {
    if (!request.headers.has("range")) return await honest(request, write);
    await write(head(206, { "content-range": `bytes 100000-399999/400000`, "content-length": 300_000 }));
    await write(BYTES);
  },
  "claims the range, and sends the beginning": async (request, write) => {
    if (!request.headers.has("range")) return await honest(request, write);
    const range = `bytes 100000-${BYTES.length - 1}/${BYTES.length}`;
    await write(head(206, { "content-range": range, "content-length": 200_000 }));
    await write(BYTES.subarray(0, 200_000));
  },
  "says that the range is beyond the end": async (request, write) => {
    if (!request.headers.has("range")) return await honest(request, write);
    await write(head(416, { "content-length": 0 }));
  },
};
for (const [lie, answer] of Object.entries(RANGE_LIES)) {
  Deno.test(`a server that ${lie} does not spoil the file`, async () => {
    using server = new RawServer(answer);
    await using folder = await Folder.make();
    await Deno.writeFile(`${folder.path}.part`, BYTES.subarray(0, 100_000));
    await folder.fetch([server.url()]);
    assertEquals(await Deno.readFile(folder.path), BYTES);
  });
}

/** Servers that are left for the next address. */
const FAULTS: Record<string, [RawAnswer, code: string]> = {
  "has another length": [
    async (_, write) => await write(head(200, { "content-length": 5 }) + "hello"),
    "assets.mismatch",
  ],
  "sends other bytes": [
    async (_, write) => {
      await write(head(200, { "content-length": BYTES.length }));
      await write(new Uint8Array(BYTES.length));
    },
    "assets.mismatch",
  ],
  "sends data without end": [
    async (_, write) => {
      await write(head(200));
      while (true) await write(BYTES);
    },
    "assets.mismatch",
  ],
  "sends it compressed": [
    async (_, write) => {
      const bytes = gzipSync(BYTES);
      await write(head(200, { "content-encoding": "gzip", "content-length": bytes.length }));
      await write(bytes);
    },
    "assets.download_failed",
  ],
  "sends gzip that is cut": [
    async (_, write) => {
      const bytes = gzipSync(BYTES);
      await write(head(200, { "content-encoding": "gzip", "transfer-encoding": "chunked" }));
      await write(`${bytes.length.toString(16)}\r\n`);
      await write(bytes.subarray(0, 1000));
    },
    "assets.download_failed",
  ],
  "answers nothing": [async () => await new Promise(() => {}), "assets.download_failed"],
  "sends a byte now and then": [
    async (_, write) => {
      await write(head(200, { "content-length": BYTES.length }));
      for (let at = 0; at < 200; at++) {
        await write(BYTES.subarray(at, at + 1));
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
    },
    "assets.download_failed",
  ],
  "fails": [async (_, write) => await write(head(500, { "content-length": 0 })), "assets.download_failed"],
  "sends a part that nobody asked for": [
    async (_, write) =>
      await write(head(206, { "content-range": "bytes 5-9/10", "content-length": 5 }) + "hello"),
    "assets.download_failed",
  ],
  "is no web server": [async (_, write) => await write("220 welcome\r\n"), "assets.download_failed"],
  "redirects to a file": [redirect("file:///etc/passwd"), "assets.download_failed"],
  "redirects to data": [redirect("data:text/plain,x"), "assets.download_failed"],
  "redirects to itself": [redirect("/file"), "assets.download_failed"],
  "redirects to nowhere": [redirect("http://["), "assets.download_failed"],
  "redirects with a password": [redirect("http://user:secret@127.0.0.1/"), "assets.download_failed"],
};

function redirect(location: string): RawAnswer {
  return async (_, write) => await write(head(302, { location, "content-length": 0 }));
}

for (const [fault, [answer, code]] of Object.entries(FAULTS)) {
  Deno.test(`a server that ${fault} is refused, and the next address is tried`, async () => {
    using bad = new RawServer(answer);
    using good = new RawServer(honest);
    await using folder = await Folder.make();
    const refusal = await folder.code([bad.url()]);
    assert(refusal.startsWith(code), refusal);
    assert(!refusal.includes("secret"), refusal);
    await folder.fetch([bad.url(), good.url()]);
    assertEquals(await Deno.readFile(folder.path), BYTES);
  });
}

Deno.test("a redirect to another host is followed for bytes of a known hash only", async () => {
  using good = new RawServer(honest);
  const target = good.url();
  target.hostname = "localhost";
  using server = new RawServer(redirect(target.href));
  await using folder = await Folder.make();
  await folder.fetch([server.url()]);
  assertEquals(await Deno.readFile(folder.path), BYTES);
  const error = await assertRejects(
    () => fetchSmall(server.url(), 1e6, { pace: PACE }),
    SbxError,
    "another host",
  );
  assertEquals(error.code, "assets.download_failed");
});

Deno.test("a redirect on the same host is followed", async () => {
  using server = new RawServer(async (request, write) => {
    await (request.path === "/file" ? redirect("/other") : honest)(request, write);
  });
  assertEquals(await fetchSmall(server.url(), 1e6), BYTES);
});

Deno.test("a document is read up to its limit, and a missing one is null", async () => {
  using server = new RawServer(async (request, write) => {
    if (request.path === "/none") return await write(head(404, { "content-length": 0 }));
    await write(head(200));
    while (true) await write(BYTES);
  });
  const error = await assertRejects(() => fetchSmall(server.url(), 1e6), SbxError);
  assertEquals(error.code, "assets.too_large");
  assertEquals(await fetchSmall(server.url("/none"), 1e6), null);
});

Deno.test("when no address has the file, the error names them without passwords", async () => {
  using server = new RawServer(async (_, write) => await write(head(404, { "content-length": 0 })));
  await using folder = await Folder.make();
  const url = server.url("/a?token=secret");
  url.username = "user";
  url.password = "secret";
  const refusal = await folder.code([url, server.url("/b")]);
  assert(refusal.startsWith("assets.not_found") && refusal.includes("/a, http"), refusal);
  assert(!refusal.includes("secret"), refusal);
});

Deno.test("a local file is copied; a pipe, a folder, what cannot be read and a file of another size are refused", async () => {
  await using folder = await Folder.make();
  const local = (name: string) => new URL(`file://${folder.dir}/${name}`);
  await Deno.writeFile(join(folder.dir, "good"), BYTES);
  await Deno.writeTextFile(join(folder.dir, "short"), "short");
  await new Deno.Command("mkfifo", { args: [join(folder.dir, "pipe")] }).output();
  assert((await folder.code([local("pipe")])).includes("not a regular file"));
  assert((await folder.code([new URL(`file://${folder.dir}`)])).includes("not a regular file"));
  assert((await folder.code([local("short")])).startsWith("assets.mismatch"));
  assert((await folder.code([local("none")])).startsWith("assets.not_found"));
  await Deno.symlink("loop", join(folder.dir, "loop"));
  assert((await folder.code([local("loop")])).includes("cannot be read"));
  await folder.fetch([local("none"), local("good")]);
  assertEquals(await Deno.readFile(folder.path), BYTES);
});

Deno.test("when the file cannot be written, no other address is asked", async () => {
  using server = new RawServer(honest);
  await using folder = await Folder.make();
  await Deno.mkdir(`${folder.path}.part`);
  await assertRejects(() => folder.fetch([server.url(), server.url("/second")]), Deno.errors.IsADirectory);
  assertEquals(server.requests.map(({ path }) => path), ["/file"]);
});
