/** `sbx agent add`, `sign` and `remove`: agents of files, with signature and diff. */
import { resolve } from "node:path";
import type { VmListed } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { fetchSmall } from "../../../lib/base/download/mod.ts";
import { home, writeAtomic } from "../../../lib/base/home/mod.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import {
  type AddedAgent,
  AGENT_TYPE,
  originOf,
  readAgentFile,
  removeAgent,
  storeAgent,
} from "../../../lib/config/agent/mod.ts";
import { corpPlaces, findCorpPlace, loadCorp } from "../../../lib/config/corp/mod.ts";
import { type Agent, profilePath } from "../../../lib/config/profile/mod.ts";
import {
  findKeyFiles,
  formatTrust,
  parseSigningKey,
  parseTrust,
  type PublicKey,
  readKeyFile,
  signPayload,
} from "../../../lib/release/mod.ts";
import { isYes } from "../confirm.ts";
import { connect } from "../connect.ts";
import { agentOf } from "./agent_again.ts";
import { SUBCOMMANDS } from "./agent_start.ts";

/** Largest file of an agent, in `bytes`, in its envelope too. */
const FILE_MAX = 256 * 1024;

const YES = { name: "yes", short: "y", about: "do not ask for confirmation" };

export const AGENT_FILE_COMMANDS: Command[] = [
  {
    name: "agent add",
    usage: "FILE|URL [OPTIONS]",
    summary: "add an agent from its profile file, after showing its rules",
    notes: [
      "The file is signed (sbx agent sign) by a key of the trust document of this host, or of --trust.",
      "The confirmation covers the hosts and packages that it names, and each line that changes.",
    ],
    options: [
      { name: "trust", value: "FILE", about: "trust document with the keys of its author" },
      { name: "unsigned", about: "add a profile.toml that is not signed" },
      YES,
      JSON_OPTION,
    ],
    words: { min: 1, max: 1 },
    completes: ["files"],
    examples: ["sbx agent add our-agent.json", "sbx agent add https://agents.example.com/our-agent.json"],
    run: add,
  },
  {
    name: "agent sign",
    usage: "PROFILE.toml --key KEY.pem --out FILE [--trust-out FILE]",
    summary: "sign the profile file of an agent, for sbx agent add elsewhere",
    options: [
      { name: "key", value: "FILE", about: "Ed25519 key that signs, as PEM" },
      { name: "out", value: "FILE", about: "signed file to write" },
      {
        name: "trust-out",
        value: "FILE",
        about: "also write the trust document with this key, for sbx agent add --trust",
      },
    ],
    words: { min: 1, max: 1 },
    completes: ["files"],
    examples: [
      "sbx agent sign our-agent/profile.toml --key author.pem --out our-agent.json",
      "sbx agent sign our.toml --key author.pem --out our.json --trust-out author-trust.json",
    ],
    run: sign,
  },
  {
    name: "agent remove",
    usage: "AGENT [--json]",
    summary: "remove an agent that sbx agent add has added",
    options: [JSON_OPTION],
    words: { min: 1, max: 1 },
    completes: ["agents"],
    examples: ["sbx agent remove our-agent"],
    run: remove,
  },
];

/** Corp's terms for added agents. @throws {SbxError} its file cannot be read */
async function corpTerms() {
  const { path, isRequired } = await findCorpPlace(corpPlaces());
  if (!isRequired) return undefined;
  const { file } = await loadCorp(path);
  return { path, release: file.release, profiles: file.corp.limits?.profiles };
}

async function add(args: Arguments): Promise<number> {
  const [word] = args.words;
  const corp = await corpTerms();
  const keyFiles = await findKeyFiles(corp);
  const own = args.text("trust");
  if (own !== undefined && corp?.release.trust_file !== undefined) {
    throw new SbxError("agent.forbidden", "corp names the keys that sign agents here", {
      hint: "leave out --trust",
    });
  }
  const trustFile = own ?? keyFiles.trust;
  const trusted: PublicKey[] = trustFile === undefined
    ? []
    : parseTrust(await readKeyFile(trustFile, "public"), trustFile);
  const source = sourceOf(word);
  const bytes = await readSource(source);
  const agent = await readAgentFile(bytes, { source: source.name, trusted, taken: SUBCOMMANDS });
  const { profile, signedBy } = agent;
  if (corp?.profiles && !corp.profiles.includes(profile.id)) {
    throw new SbxError("agent.forbidden", `corp does not allow the profile "${profile.id}"`, {
      hint: `corp.limits.profiles of ${corp.path} has those it allows`,
    });
  }
  if (signedBy.length === 0) requireUnsigned(args, source.name, corp?.release.trust_file !== undefined);
  const path = profilePath(home(), profile.id);
  const before = await originOf(home(), profile.id) ? await Deno.readTextFile(path) : undefined;
  if (before === agent.text) note(`${profile.id} is as it was added`);
  else {
    note(describe(agent, source.name, before));
    if (!args.has("yes") && !confirm(profile.id)) return 1;
  }
  const stored = await storeAgent(home(), agent, source.name);
  if (args.has("json")) await printJson({ id: profile.id, path: stored, signed_by: signedBy });
  else await print(`added ${stored}; sbx agent ${profile.id} starts it`);
  return 0;
}

/** @throws {SbxError} `agent.unsigned`, `agent.forbidden` */
function requireUnsigned(args: Arguments, source: string, isCorps: boolean): void {
  if (isCorps) {
    throw new SbxError("agent.forbidden", `${source} is not signed, and corp names keys that sign`, {
      hint: "have it signed by one of them: sbx agent sign --help",
    });
  }
  if (args.has("unsigned")) return;
  throw new SbxError("agent.unsigned", `${source} is not signed`, {
    hint: "get the signed file from its author, or read it and add --unsigned",
  });
}

/** A file, or an https address. */
function sourceOf(word: string): { name: string; url?: URL } {
  const url = /^[a-z]+:\/\//i.test(word) ? URL.parse(word) : null;
  if (!url) return { name: resolve(word) };
  if (url.protocol === "https:" && !url.username && !url.password) return { name: url.href, url };
  throw new SbxError("agent.invalid", "an agent comes from a file, or an https address without a user", {
    hint: "download it yourself, and give the file",
  });
}

async function readSource({ name, url }: { name: string; url?: URL }): Promise<Uint8Array> {
  const none = (cause?: unknown) =>
    new SbxError("agent.not_found", `there is no agent at ${name}`, {
      cause,
      hint: url ? "check the address" : "check the path",
    });
  if (url) {
    const bytes = await fetchSmall(url, FILE_MAX);
    if (!bytes) throw none();
    return bytes;
  }
  const bytes = new Uint8Array(FILE_MAX + 1);
  let size = 0;
  try {
    using file = await Deno.open(name);
    if (!(await file.stat()).isFile) throw none();
    for (let read; size < bytes.length && (read = await file.read(bytes.subarray(size))) !== null;) {
      size += read;
    }
  } catch (cause) {
    throw cause instanceof SbxError ? cause : none(cause);
  }
  if (size <= FILE_MAX) return bytes.subarray(0, size);
  throw new SbxError("agent.invalid", `${name} is over ${FILE_MAX} bytes`, { hint: "name a profile file" });
}

/** The text that a person confirms; a line break in a name makes no row. */
export function describe({ profile, text, signedBy }: AddedAgent, source: string, before?: string): string {
  const { id, name, packages, credentials, host, agent } = profile;
  const { models, own, reports } = agent.hosts;
  const list = (words: readonly string[]) => words.join(", ") || "none";
  const rows = [
    `${before === undefined ? "new agent" : "change of the agent"} ${id} (${name}), from ${source}`,
    `signed by   ${signedBy.length > 0 ? list(signedBy) : "NO ONE"}`,
    `key of      ${list(credentials.providers)}`,
    `packages    ${list([...packages.npm, ...packages.apt])}`,
    `its hosts   ${list([...models, ...own])}`,
    `reports to  ${list(reports)}`,
    `host ports  ${list(host?.services ?? [])}`,
    `your files  ${list(setupPaths(agent.setup))}`,
    "",
  ];
  return [...rows, ...changedLines(before ?? "", text)].map((row) => plain(row)).join("\n");
}

/** Files below the home that `--with-setup` would show and take. */
function setupPaths(setup: Agent["setup"]): string[] {
  if (!setup) return [];
  return [...setup.texts, ...setup.programs, ...Object.keys(setup.settings)].map((path) => `~/${path}`);
}

/** Most pairs of lines that are compared; the files of a stranger may be lines alone. */
const PAIRS_MAX = 16 * 1024 * 1024;

/** Lines that go and come, by their longest common subsequence; of very many lines, all. */
export function changedLines(before: string, after: string): string[] {
  const [a, b] = [before, after].map((text) => text === "" ? [] : text.replace(/\n$/, "").split("\n"));
  if (a.length * b.length > PAIRS_MAX) {
    return [...a.map((line) => `- ${line}`), ...b.map((line) => `+ ${line}`)];
  }
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      lengths[i * width + j] = a[i] === b[j]
        ? lengths[(i + 1) * width + j + 1] + 1
        : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const lines: string[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) i++, j++;
    else if (j === b.length || i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
      lines.push(`- ${a[i++]}`);
    } else lines.push(`+ ${b[j++]}`);
  }
  return lines;
}

/** @throws {SbxError} `usage.invalid`: there is no terminal to ask in */
function confirm(id: string): boolean {
  if (Deno.stdin.isTerminal()) return isYes(`add ${id}?`);
  throw new SbxError("usage.invalid", "sbx agent add needs a confirmation, and there is no terminal for it", {
    hint: "read the lines above, then repeat it with --yes",
  });
}

async function sign(args: Arguments): Promise<number> {
  const [key, out, trust] = [args.text("key"), args.text("out"), args.text("trust-out")];
  if (key === undefined || out === undefined) {
    throw new SbxError("usage.invalid", "sbx agent sign needs --key and --out", {
      hint: "openssl genpkey -algorithm ed25519 -out author.pem makes a key",
    });
  }
  const source = sourceOf(args.words[0]);
  const bytes = await readSource(source);
  // A file that every sbx would refuse is not signed.
  await readAgentFile(bytes, { source: source.name, trusted: [], taken: SUBCOMMANDS });
  const signingKey = await parseSigningKey(await readKeyFile(key, "sign"), key);
  const envelope = await signPayload(AGENT_TYPE, bytes, [signingKey]);
  await writeAtomic(resolve(out), `${JSON.stringify(envelope)}\n`, 0o644);
  if (trust !== undefined) await writeAtomic(resolve(trust), formatTrust([signingKey.publicKey]), 0o644);
  await print(`signed by ${signingKey.publicKey.id}: ${out}`);
  if (trust !== undefined) {
    await print(`sbx agent add ${out} --trust ${trust} adds it; send ${trust} another way than ${out}`);
  }
  return 0;
}

async function remove(args: Arguments): Promise<number> {
  const [id] = args.words;
  const { vms } = await (await connect()).json<{ vms: VmListed[] }>("GET", "/vms/list");
  const users = vms.filter((vm) => vm.profile_id === id || agentOf(vm) === id).map(({ name }) => name);
  if (users.length > 0) {
    throw new SbxError("agent.in_use", `${id} is the agent of ${users.join(", ")}`, {
      hint: `sbx delete ${users[0]} removes the VM; sbx pull takes its work first`,
    });
  }
  await removeAgent(home(), id);
  if (args.has("json")) await printJson({ id });
  else await print(`removed ${id}; sbx image prune removes files that no image needs`);
  return 0;
}
