/**
 * Support bundles: report, doctor, logs, configuration and the evidence of one session, redacted, in one
 * archive.
 */
import { join } from "node:path";
import type { DebugReport } from "../../client/api/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { BLOCK, tarHeader } from "../../base/tar/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { versionInfo } from "../../base/version/mod.ts";
import { LOG_NAMES, logTail, machineRedactor } from "../debug/mod.ts";
import type { HostReport } from "../doctor/host/mod.ts";
import { listProfiles } from "../../config/profile/mod.ts";
import type { Redactor } from "../../base/redact/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { readEvents, readFindings } from "../../ledger/read/mod.ts";
import { sessionPaths } from "../../session/files/mod.ts";
import * as zlib from "node:zlib";
import { SbxError } from "../../base/error/mod.ts";

/** Most bytes of the end of each log of the home. */
const LOG_MAX = 256 * 1024;
/** Last lines of a failed VM's console in the README. */
const CONSOLE_LINES = 40;
/** Longest settings.toml or profile.toml in a bundle, in `bytes`. */
const FILE_MAX = 256 * 1024;

/** A caller's findings so far. */
export interface BundleSources {
  report: DebugReport;
  doctor: HostReport;
  /** lints of rules, by profile; absent where no service answers */
  lints?: Record<string, unknown>;
  /** id of a session whose evidence is taken too */
  session?: string;
  /** replaces host names and addresses too */
  hosts?: boolean;
}

/** A bundle before it is written. */
export interface Bundle {
  files: { path: string; bytes: Uint8Array; size: number; blake3: string }[];
}

/**
 * Collects and redacts a bundle (docs/design/contracts/11-debug-report.md §11, "Bundles"). Nothing is
 * written.
 */
export async function collectBundle(home: Home, sources: BundleSources): Promise<Bundle> {
  const { redactor } = await machineRedactor(home, { hosts: sources.hosts });
  const evidence = sources.session === undefined ? [] : await sessionParts(home, sources.session);
  const parts: Part[] = [
    { path: "README.txt", content: readmeOf(sources, lastWords(evidence)) },
    { path: "report.json", content: sources.report },
    { path: "doctor.json", content: sources.doctor },
    { path: "versions.json", content: versionsOf(sources.report) },
    ...await configurationParts(home),
    { path: "lint.json", content: await lintOf(home, sources.lints) },
    ...await logParts(home),
    ...evidence,
  ];
  const files = renamed(parts, redactor).map(({ path, content }) => {
    const text = typeof content === "string"
      ? redactor.text(content)
      : JSON.stringify(redactor.value(content), null, 2) + "\n";
    return fileOf(path, text);
  });
  const list = files.map(({ path, size, blake3 }) => ({ path, size, blake3 }));
  const manifest = {
    schema: "sbx.support-bundle.v1",
    redacted: true,
    generated_at: sources.report.generated_at,
    files: list,
  };
  return { files: [fileOf("manifest.json", JSON.stringify(manifest, null, 2) + "\n"), ...files] };
}

/** Parts with paths that hold no secret; of paths that become equal, later ones get a number. */
function renamed(parts: readonly Part[], redactor: Redactor): Part[] {
  const seen = new Map<string, number>();
  return parts.map(({ path, content }) => {
    const safe = redactor.text(path);
    const count = (seen.get(safe) ?? 0) + 1;
    seen.set(safe, count);
    return { path: count === 1 ? safe : `${safe}-${count}`, content };
  });
}

/** Writes a bundle whole, or not at all. */
export async function writeBundle(path: string, { files }: Bundle): Promise<void> {
  const prefixed = files.map((file) => ({ ...file, path: `sbx-support/${file.path}` }));
  await writeAtomic(path, compress(tarOf(prefixed, Math.floor(Date.now() / 1000))));
}

function fileOf(path: string, text: string): Bundle["files"][number] {
  const bytes = new TextEncoder().encode(text);
  return { path, bytes, size: bytes.length, blake3: blake3(bytes) };
}

/** The end of the console of a VM that failed: a kernel that gave up says why. */
function lastWords(evidence: readonly Part[]): string[] {
  const contentOf = (path: string) => evidence.find((part) => part.path === `session/${path}`)?.content;
  const state = contentOf("state.json");
  const console = contentOf("logs/console.log");
  if (typeof state !== "object" || (state as { state?: unknown }).state !== "Defunct") return [];
  if (typeof console !== "string") return [];
  const lines = console.split(/\r?\n/).map((line) => plain(line.trim()));
  return lines.filter((line) => line !== "").slice(-CONSOLE_LINES);
}

/**
 * The first page for a reader who was not there: which host, the failure, its cause, and its repair.
 *
 * @param words last lines of a failed VM's console
 */
function readmeOf({ report, doctor, session }: BundleSources, words: readonly string[]): string {
  const { host, version, status } = report;
  const isTold = (detail: string) => status.issues.some((issue) => detail.includes(issue));
  // The check of the service repeats its first issue.
  const failed = doctor.checks.filter(({ id, state, detail }) =>
    state === "failed" && !(id === "service" && isTold(detail))
  );
  // Without a service, the report's issues are those checks.
  const issues = status.issues.filter((issue) =>
    !failed.some(({ title, detail }) => issue.startsWith(`${title}: ${detail}`)) &&
    !status.defunct_sessions.some(({ name, last_error }) =>
      issue.startsWith(`VM "${name}" is `) && issue.endsWith(last_error)
    )
  );
  return [
    `Support bundle of sbx ${version.sbx_version} (${version.build_hash}), made ${report.generated_at}.`,
    `Host: ${host.os} ${Deno.osRelease()}, ${host.arch}.`,
    ...(session === undefined ? [] : [`Session: ${session}`]),
    "",
    "What failed, and why:",
    ...failed.map(({ title, detail, remedy }) =>
      `- ${title}: ${detail}${remedy ? `; to mend it: ${remedy}` : ""}`
    ),
    ...status.defunct_sessions.map(({ name, last_error }) => `- VM "${name}": ${last_error}`),
    ...issues.map((issue) => `- ${issue}`),
    ...(failed.length + issues.length + status.defunct_sessions.length === 0 ? ["- nothing was found"] : []),
    ...(words.length > 0
      ? ["", "The last lines of its console:", ...words.map((line) => `    ${line}`)]
      : []),
    ...(status.defunct_sessions.length > 0 && session === undefined
      ? ["", "Logs and events of a VM are not in this bundle: sbx support-bundle --session NAME adds them."]
      : []),
    "",
    "Secrets, names of users and e-mail addresses are replaced. manifest.json has the hash of each file.",
    "",
  ].join("\n");
}

function versionsOf({ version, host_binaries, host }: DebugReport): object {
  return { ...version, ...versionInfo(), kernel: Deno.osRelease(), host, host_binaries };
}

/** settings.toml and the user's profiles, as texts. */
async function configurationParts(home: Home): Promise<Part[]> {
  const names = await Array.fromAsync(Deno.readDir(home.profilesDir), ({ name }) => name).catch(() => []);
  const paths: [string, string][] = [
    ["settings.toml", join(home.dir, "settings.toml")],
    ...names.filter((name) => /^[\w-]{1,40}$/.test(name)).sort().slice(0, 50)
      .map((
        name,
      ): [string, string] => [`profiles/${name}.toml`, join(home.profilesDir, name, "profile.toml")]),
  ];
  const logs = await Promise.all(paths.map(([name, path]) => logTail(name, path, FILE_MAX)));
  return logs.filter(({ exists }) => exists).map(({ name, text }) => ({ path: name, content: text }));
}

async function lintOf(home: Home, lints: BundleSources["lints"]): Promise<object> {
  const profiles = await listProfiles(home).catch(() => []);
  const broken = profiles.flatMap((each) =>
    "error" in each ? [{ id: each.id, error: each.error.message }] : []
  );
  return {
    broken_profiles: broken,
    ...(lints ? { rules: lints } : { rules: "not known without a service" }),
  };
}

async function logParts(home: Home): Promise<Part[]> {
  const logs = await Promise.all(
    LOG_NAMES.map((name) => logTail(name, join(home.logsDir, `${name}.log`), LOG_MAX)),
  );
  return logs.filter(({ exists }) => exists).map(({ name, text }) => ({
    path: `logs/${name}.log`,
    content: text,
  }));
}

// Evidence of one session, without its traffic: files of the VM, ends of its logs, events, findings.

/** Most events of a bundle. */
const EVENTS_MAX = 5000;
const PAGE = 1000;
/** Most bytes of the end of each log of a VM. */
const VM_LOG_MAX = 64 * 1024;
/** Longest text of an event, in characters. */
const TEXT_MAX = 500;
/** Fields of events that hold traffic: bodies, headers, arguments of tools, texts of models. */
const CONTENT = new Set([
  "arguments",
  "body",
  "completion",
  "content",
  "data",
  "env",
  "headers",
  "input",
  "messages",
  "output",
  "params",
  "payload",
  "preview",
  "prompt",
  "query",
  "result",
  "stderr",
  "stdin",
  "stdout",
  "text",
  "texts",
  "trailers",
  "url",
]);

/** A part of a bundle before its redaction: a text, or a value for JSON. */
interface Part {
  path: string;
  content: string | object;
}

/** Collects the parts of a session; `session/problems.json` lists missing or damaged ones. */
async function sessionParts(home: Home, id: string): Promise<Part[]> {
  const paths = sessionPaths(home, id);
  const problems: string[] = [];
  const parts: Part[] = [];
  const take = async (name: string, read: () => Promise<Part["content"] | undefined>) => {
    try {
      const content = await read();
      if (content !== undefined) parts.push({ path: `session/${name}`, content });
    } catch (error) {
      problems.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  await take(
    "vm.json",
    async () => withoutContent(JSON.parse(await Deno.readTextFile(paths.record))) as object,
  );
  await take(
    "state.json",
    async () => withoutContent(JSON.parse(await Deno.readTextFile(paths.state))) as object,
  );
  const logs = await Array.fromAsync(Deno.readDir(paths.logs), ({ name }) => name).catch(() => []);
  for (const name of logs.sort().slice(0, 20)) {
    const safe = name.replaceAll(/[^\w.-]/g, "_").slice(0, 60);
    await take(`logs/${safe}`, async () => {
      const { text, problem } = await logTail(name, join(paths.logs, name), VM_LOG_MAX);
      if (problem !== undefined) throw new Error(problem);
      return text;
    });
  }
  await take("events.json", async () => ({ events: await eventsOf(paths.ledger) }));
  await take(
    "findings.json",
    async () => ({ findings: (await readFindings(paths.ledger)).map(withoutContent) }),
  );
  if (problems.length > 0) parts.push({ path: "session/problems.json", content: { problems } });
  return parts;
}

/** The last events, oldest first: a failure is at the end of a record. */
async function eventsOf(ledger: string): Promise<unknown[]> {
  await Deno.stat(ledger);
  const events: unknown[] = [];
  for (let cursor: string | undefined = "0"; cursor !== undefined;) {
    const page: Awaited<ReturnType<typeof readEvents>> = await readEvents(ledger, { cursor, limit: PAGE });
    events.push(...page.events.map(withoutContent));
    events.splice(0, events.length - EVENTS_MAX);
    cursor = page.next_cursor;
  }
  return events;
}

/** A value without fields that hold content, its texts cut. */
function withoutContent(value: unknown): unknown {
  if (typeof value === "string") return value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX)}…` : value;
  if (Array.isArray(value)) return value.map(withoutContent);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map((
      [name, item],
    ) => [name, CONTENT.has(name) ? "[left out]" : withoutContent(item)]),
  );
}

// A tar archive of few small files (POSIX ustar), compressed with zstd.

/** One file of an archive; its path has at most 100 bytes. */
interface TarFile {
  path: string;
  bytes: Uint8Array;
}

/** Makes the archive. @param mtime of all files, in seconds */
function tarOf(files: readonly TarFile[], mtime: number): Uint8Array {
  const parts = files.flatMap(({ path, bytes }) => {
    const padding = new Uint8Array((BLOCK - bytes.length % BLOCK) % BLOCK);
    return [tarHeader({ name: path, mode: 0o600, size: bytes.length, mtime }), bytes, padding];
  });
  parts.push(new Uint8Array(2 * BLOCK));
  const out = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Compresses with zstd. @throws {SbxError} `bundle.unsupported`: this runtime has no zstd */
function compress(bytes: Uint8Array): Uint8Array {
  if (typeof zlib.zstdCompressSync !== "function") {
    throw new SbxError("bundle.unsupported", "this build of sbx cannot compress with zstd", {
      hint: "sbx debug --out report.json writes the report alone",
    });
  }
  return new Uint8Array(zlib.zstdCompressSync(bytes));
}
