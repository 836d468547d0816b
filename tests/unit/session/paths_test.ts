import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { makeSockets, sessionPaths } from "../../../lib/session/mod.ts";

const ID = "0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e";
const at = (dir: string) => sessionPaths(home({ get: (name) => name === "SBX_HOME" ? dir : undefined }), ID);

Deno.test("sockets stay in the run folder while their paths fit, and move to a hashed name when they do not", () => {
  assertEquals(at("/h").socket, `/h/run/instances/${ID}.sock`);
  const long = at("/" + "h".repeat(80));
  const folder = Deno.env.get("TMPDIR") || "/tmp";
  assert(long.socket.startsWith(`${folder}/sbx-`), long.socket);
  assert(/\/sbx-[0-9a-f]{16}\.sock$/.test(long.socket), long.socket);
  assert(`${long.sockets}/vsock.sock`.length <= 90);
  assert(at("/" + "g".repeat(80)).socket !== long.socket, "two homes do not meet");
});

Deno.test("a folder of sockets that others may enter is refused: anybody can make one below /tmp", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const paths = { ...at("/h"), sockets: join(dir, "sockets") };
    await makeSockets(paths);
    assertEquals(((await Deno.stat(paths.sockets)).mode ?? 0) & 0o777, 0o700);
    await Deno.chmod(paths.sockets, 0o777);
    assertEquals((await assertRejects(() => makeSockets(paths), SbxError)).code, "session.not_ours");
    await Deno.remove(paths.sockets);
    await Deno.symlink("/", paths.sockets);
    assertEquals((await assertRejects(() => makeSockets(paths), SbxError)).code, "session.not_ours");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
