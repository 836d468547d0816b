import type {
  AuditRow,
  CredentialAudit,
  CredentialList,
  CredentialView,
} from "../../../lib/api/credential.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { numberOf, usage } from "../arguments.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { print, printJson, table } from "../output.ts";
import { readSecret } from "../secret.ts";

export const command: Command = {
  name: "credentials",
  usage: "list | add PROVIDER [--host HOST] [--label TEXT] [--decoy] | revoke REF | audit [--json]",
  summary: "API keys that VMs use without ever holding them",
  options: [
    { name: "label", value: "TEXT", about: "add: a name to tell it by" },
    { name: "host", value: "HOST", about: "add mcp: the host that it may be sent to" },
    { name: "decoy", about: "add: a key that opens nothing; any use of it raises an alarm" },
    { name: "ref", value: "REF", about: "audit: only this credential" },
    { name: "limit", value: "N", about: "audit: the latest N (100)" },
    JSON_OPTION,
  ],
  words: { min: 1, max: 2 },
  examples: [
    "sbx credentials add anthropic",
    "sbx credentials add github --label work < token.txt",
    "sbx credentials add mcp --host mcp.example.com",
    "sbx credentials list",
    "sbx credentials revoke 3f9a12cd",
    "sbx credentials audit --limit 20",
  ],
  async run(given) {
    const [verb, word] = given.words;
    if (verb === "list" && word === undefined) return await list(given);
    if (verb === "add" && word !== undefined) return await add(word, given);
    if (verb === "revoke" && word !== undefined) return await revoke(word, given);
    if (verb === "audit" && word === undefined) return await audit(given);
    throw usage(command, `sbx credentials takes ${command.usage}`);
  },
};

const PROVIDERS = ["anthropic", "openai", "google", "github", "mcp"];
/** Fewest characters by which a ref is told from others. */
const SHORT_MIN = 6;
/** Characters of a ref that tables show. */
const SHORT = 12;

async function list(given: Given): Promise<number> {
  const answer = await credentials(await connect());
  if (given.on("json")) await printJson(answer);
  else if (answer.credentials.length === 0) {
    await print("no credentials: sbx credentials add PROVIDER takes one in");
  } else await print(table(["REF", "PROVIDER", "LABEL", "FROM", "SINCE", ""], answer.credentials.map(row)));
  return 0;
}

function row(
  { ref, provider, label, hosts, source, created_at, decoy, revoked_at }: CredentialView,
): string[] {
  const marks = [decoy ? "decoy" : "", hosts ? `for ${hosts.join(" ")}` : "", revoked_at ? "revoked" : ""];
  return [
    short(ref),
    provider,
    label ?? "",
    source,
    created_at.slice(0, 10),
    marks.filter(Boolean).join(", "),
  ];
}

async function add(provider: string, given: Given): Promise<number> {
  if (!PROVIDERS.includes(provider)) {
    throw usage(
      command,
      `"${provider}" is no provider`,
      `one of ${PROVIDERS.join(", ")}; the key itself is asked for`,
    );
  }
  const decoy = given.on("decoy");
  const host = given.text("host");
  if (provider === "mcp" && host === undefined) throw usage(command, "mcp needs --host HOST");
  const client = await connect();
  // A decoy gets a key of its own: nobody has one to give.
  const secret = decoy ? undefined : await readSecret(`${provider} key: `);
  const json = { provider, secret, label: given.text("label"), host, ...(decoy && { decoy }) };
  const added = await client.json<CredentialView>("POST", "/credentials/add", { json });
  await (given.on("json") ? printJson(added) : print(added.ref));
  return 0;
}

async function revoke(word: string, given: Given): Promise<number> {
  const client = await connect();
  const ref = await refOf(client, word);
  const revoked = await client.json<CredentialView>("DELETE", `/credentials/${encodeURIComponent(ref)}`);
  await (given.on("json") ? printJson(revoked) : print(`revoked ${revoked.ref}`));
  return 0;
}

/** The whole ref that a person means by the first characters of its digits. */
async function refOf(client: Client, word: string): Promise<string> {
  const digits = word.replace(/^credential:blake3:/, "");
  if (!/^[0-9a-f]+$/.test(digits) || digits.length < SHORT_MIN) {
    throw usage(
      command,
      `"${word}" is no ref`,
      `give at least ${SHORT_MIN} of its digits; sbx credentials list shows them`,
    );
  }
  const { credentials: all } = await credentials(client);
  const meant = all.filter(({ ref }) => ref.startsWith(`credential:blake3:${digits}`));
  if (meant.length === 1) return meant[0].ref;
  throw new SbxError(
    meant.length ? "credential.conflict" : "credential.not_found",
    meant.length ? `${meant.length} credentials begin with ${digits}` : `no credential begins with ${digits}`,
    { hint: "sbx credentials list --json shows whole refs" },
  );
}

async function audit(given: Given): Promise<number> {
  const client = await connect();
  const limit = numberOf(given, "limit", { min: 1, max: 1000 });
  const ref = given.text("ref") === undefined ? undefined : await refOf(client, given.text("ref")!);
  const answer = await client.json<CredentialAudit>("GET", "/credentials/audit", { query: { ref, limit } });
  if (given.on("json")) await printJson(answer);
  else if (answer.rows.length === 0) await print("no credential was used");
  else {
    const headings = ["TIME", "OUTCOME", "PROVIDER", "REF", "HOST", "WHERE", "WHY"];
    await print(table(headings, answer.rows.map(auditRow)));
  }
  return 0;
}

function auditRow(
  { timestamp_unix_ms, outcome, provider, credential_ref, host, location, reason }: AuditRow,
): string[] {
  const time = new Date(timestamp_unix_ms).toISOString().slice(0, 19).replace("T", " ");
  return [time, outcome, provider, short(credential_ref), host ?? "", location ?? "", reason ?? ""];
}

function short(ref: string): string {
  return ref.replace(/^credential:blake3:/, "").slice(0, SHORT);
}

async function credentials(client: Client): Promise<CredentialList> {
  return await client.json<CredentialList>("GET", "/credentials/list");
}
