import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { home as findHome } from "../../../lib/base/home/mod.ts";
import { removeGatewayFiles, writeGatewayFiles } from "../../../lib/client/gateway/mod.ts";
import { UnixServer } from "../../../lib/base/socket/mod.ts";
import { exists } from "../../helper/exists.ts";

async function ask(path: string): Promise<string | undefined> {
  using client = Deno.createHttpClient({ proxy: { transport: "unix", path }, poolMaxIdlePerHost: 0 });
  return await fetch("http://service/", { client }).then((response) => response.text(), () => undefined);
}

Deno.test("a service of a home that was removed and made again leaves its successor's socket alone", async () => {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "service.sock");
  try {
    const first = UnixServer.open(path, () => new Response("first"));
    assertEquals(await ask(path), "first");
    await Deno.remove(path);
    const second = UnixServer.open(path, () => new Response("second"));
    await Promise.all([first.close(), first.finished]);
    assertEquals(await ask(path), "second");
    await Promise.all([second.close(), second.finished]);
    assertEquals([await exists(path), await ask(path)], [false, undefined]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a service replaces the socket that a crash left", async () => {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "service.sock");
  try {
    for (const stale of [path, `${path}~`]) await Deno.writeTextFile(stale, "");
    const socket = UnixServer.open(path, () => new Response("new"));
    assertEquals(await ask(path), "new");
    await socket.close();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a gateway removes its own files only", async () => {
  const SBX_HOME = await Deno.makeTempDir();
  const home = findHome({ get: (name) => ({ SBX_HOME } as Record<string, string>)[name] });
  const files = [home.gatewayPidFile, home.gatewayPortFile, home.gatewayTokenFile];
  try {
    await Deno.mkdir(home.runDir);
    await writeGatewayFiles(home, "token", 1);
    await Deno.writeTextFile(home.gatewayPidFile, "1\n");
    removeGatewayFiles(home);
    assertEquals(await Promise.all(files.map(exists)), [true, true, true]);
    await writeGatewayFiles(home, "token", 1);
    removeGatewayFiles(home);
    assertEquals(await Promise.all(files.map(exists)), [false, false, false]);
  } finally {
    await Deno.remove(SBX_HOME, { recursive: true });
  }
});
