/**
 * `GET /settings/info` at 1,000 leaves beside `GET /version`, both on one server over a UDS, one client after
 * another request (at least 0.3 ×). Prints one JSON object.
 */
import { Hono } from "hono";
import { join } from "node:path";
import { routeSettings } from "../../cmd/service/routes/settings.ts";
import { versionInfo } from "../../lib/base/version/mod.ts";
import { CorpStore } from "../../lib/config/corp/mod.ts";
import { parseDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";
import { parseToml } from "../../lib/base/toml/mod.ts";

const LEAVES = 1_000;
const SECONDS = 2;

const dir = await Deno.makeTempDir();
const path = join(dir, "s.sock");
const text = Array.from(
  { length: LEAVES },
  (_, i) =>
    `[settings.s${i}]\nname = "Setting ${i}"\ndescription = "What it is for"\ntype = "number"\ndefault = ${i}\n`,
).join("");
const corp = new CorpStore({ dir }, { managed: join(dir, "corp.toml") });
const settings = await SettingsStore.open({
  home: { dir },
  corp,
  definitions: parseDefinitions(parseToml(text, "d")),
});
const app = new Hono();
const version = versionInfo();
app.get("/version", (context) => context.json(version));
routeSettings(app, settings, corp);
const server = Deno.serve({ path, onListen: () => {} }, app.fetch);

const conn = await Deno.connect({ transport: "unix", path });
const buffer = new Uint8Array(1024 * 1024);
const decoder = new TextDecoder();

/**
 * One request on the one connection; the client does as little as it can, so that
 * the server is what is measured.
 */
async function request(bytes: Uint8Array): Promise<void> {
  await conn.write(bytes);
  let have = 0;
  let want = Infinity;
  while (have < want) {
    have += await conn.read(want === Infinity ? buffer.subarray(have) : buffer) ?? 0;
    if (want !== Infinity) continue;
    const head = decoder.decode(buffer.subarray(0, Math.min(have, 1024)));
    const end = head.indexOf("\r\n\r\n");
    if (end >= 0) want = end + 4 + Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
  }
}

async function perSecond(path: string, header = ""): Promise<number> {
  const bytes = new TextEncoder().encode(`GET ${path} HTTP/1.1\r\nhost: s\r\n${header}\r\n`);
  for (let i = 0; i < 300; i++) await request(bytes);
  const start = performance.now();
  let count = 0;
  while (performance.now() - start < SECONDS * 1000) {
    await request(bytes);
    count++;
  }
  return count / ((performance.now() - start) / 1000);
}

const { json, gzip, etag } = settings.infoBytes();
const versionRate = await perSecond("/version");
const infoRate = await perSecond("/settings/info", "accept-encoding: gzip\r\n");
const plainRate = await perSecond("/settings/info");
const unchangedRate = await perSecond("/settings/info", `if-none-match: ${etag}\r\n`);
console.log(JSON.stringify({
  bench: "settings_info",
  leaves: LEAVES,
  answer_bytes: json.length,
  gzip_bytes: gzip.length,
  version_per_s: Math.round(versionRate),
  info_per_s: Math.round(infoRate),
  ratio: infoRate / versionRate,
  target_ratio: 0.3,
  /** to a client that takes no gzip: bound by half a megabyte for each answer */
  plain_per_s: Math.round(plainRate),
  plain_ratio: plainRate / versionRate,
  plain_mb_per_s: Math.round(plainRate * json.length / 1e6),
  unchanged_per_s: Math.round(unchangedRate),
  unchanged_ratio: unchangedRate / versionRate,
}));
conn.close();
await server.shutdown();
await Deno.remove(dir, { recursive: true });
