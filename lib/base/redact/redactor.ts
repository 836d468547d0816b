/**
 * Removes secrets, names and addresses from text that leaves the machine
 * (docs/design/contracts/11-debug-report.md §11, "Redaction").
 */
import { isObject } from "../object/mod.ts";
import { findAssigned, isPlaceholder } from "./assignment.ts";
import { looksRandom } from "./entropy.ts";
import { strengthOf } from "./name.ts";
import { findMnemonics } from "./mnemonic.ts";
import { findAll, findDigits, findHosts, findPrivateKeys, findUsersAndEmails } from "./shape.ts";
import { readingsOf, REDACTED, replaceSpans, type Span } from "./span.ts";

/** Finds the secrets that this machine knows, in all their encodings: the finder of the credential broker. */
export interface KnownSecrets {
  find(text: string): { start: number; end: number; kind: string }[];
}

/** Secrets and names of this machine, for a {@linkcode Redactor}. */
export interface RedactorOptions {
  known?: KnownSecrets;
  /** the user's name, replaced where it is a segment of a path or follows the word "user" */
  user?: string;
  /** also replaces hosts of URLs, IPv4 addresses and these names of the machine */
  hosts?: readonly string[];
}

/** Passes after which a text must no longer change. A replacement changes the context of its neighbours. */
const PASSES_MAX = 8;
/** Text in place of one that keeps changing. */
const WITHHELD = "[redacted: whole text]";
const WORDS = /[A-Za-z0-9_.~+/=-]{20,}/g;
/** Words whose segments are checked one by one; base64 has slashes too. */
const PATH = /^(?:~|\.{1,2})?\/|^[\w.-]+\/[\w.-]+\//;

/**
 * Replaces secrets, user names and addresses in text (docs/design/contracts/11-debug-report.md §11,
 * "Redaction"). Idempotent; takes time in proportion to the text.
 */
export class Redactor {
  readonly #known?: KnownSecrets;
  readonly #user?: RegExp;
  readonly #hosts?: RegExp;

  constructor({ known, user, hosts }: RedactorOptions = {}) {
    this.#known = known;
    if (user) this.#user = new RegExp(`(?<=[/\\\\]|\\buser )${RegExp.escape(user)}(?![\\w.-])`, "g");
    if (hosts) this.#hosts = wordsPattern(hosts);
  }

  /** The text without secrets. */
  text = (text: string): string => {
    let before = text;
    for (let pass = 0; pass < PASSES_MAX; pass++) {
      const spans = readingsOf(before).flatMap(({ text, place }) => this.#find(text).map(place));
      const after = replaceSpans(before, spans);
      if (after === before) return after;
      before = after;
    }
    return WITHHELD;
  };

  /**
   * A JSON value without secrets, also in names of fields. Values of fields with secret names are replaced.
   */
  value<T>(value: T): T {
    return this.#value(value) as T;
  }

  #value(value: unknown, name?: string): unknown {
    if (typeof value === "string") return this.#field(value, name);
    if (Array.isArray(value)) return value.map((item) => this.#value(item, name));
    if (!isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [this.text(key), this.#value(item, this.text(key))]),
    );
  }

  #field(text: string, name?: string): string {
    // A secret as the name may have its other half as the value.
    if (name?.includes(REDACTED) && text !== "") return REDACTED;
    if (name === undefined || text === "" || strengthOf(name) === undefined) return this.text(text);
    const prefix = `${JSON.stringify(name)}: `;
    const line = this.text(`${prefix}${JSON.stringify(text)}`);
    try {
      return this.text(JSON.parse(line.slice(prefix.length)));
    } catch {
      return REDACTED;
    }
  }

  #find(text: string): Span[] {
    return [
      ...(this.#known?.find(text) ?? []).filter(({ kind }) => kind !== "ref")
        .map(({ start, end }) => ({ start, end })),
      ...findPrivateKeys(text),
      ...findTokens(text),
      ...findAssigned(text),
      ...findInCommands(text),
      ...findDigits(text),
      ...findMnemonics(text),
      ...findUsersAndEmails(text),
      ...findRandom(text),
      ...(this.#user ? findAll(this.#user, text, "[user]") : []),
      ...(this.#hosts ? [...findHosts(text), ...findAll(this.#hosts, text, "[host]")] : []),
    ];
  }
}

/**
 * Secrets in a text that is to stay as it is: without names of people and places, numbers,
 * and words that only look random.
 */
export function findSecrets(text: string): Span[] {
  return readingsOf(text).flatMap(({ text, place }) =>
    [
      ...findPrivateKeys(text),
      ...findTokens(text),
      ...findAssigned(text),
      ...findInCommands(text),
      ...findMnemonics(text),
    ].map(place)
  );
}

/** Words of high entropy; paths are checked segment by segment. */
function findRandom(text: string): Span[] {
  return Array.from(text.matchAll(WORDS)).flatMap(({ index, 0: word }) => {
    const parts = PATH.test(word) ? word.split("/") : [word];
    let at = index;
    return parts.flatMap((part) => {
      const start = at;
      at += part.length + 1;
      return looksRandom(part) ? [{ start, end: start + part.length }] : [];
    });
  });
}

function wordsPattern(names: readonly string[]): RegExp | undefined {
  const words = names.filter((name) => name.length > 1 && name !== "localhost");
  if (words.length === 0) return /(?!)/g;
  return new RegExp(`(?<![\\w-])(?:${words.map((word) => RegExp.escape(word)).join("|")})(?![\\w-])`, "gi");
}

// Passwords in command lines, behind options whose names do not say so:
// `mysql -pPASSWORD`, `sshpass -p PASSWORD`.

/** Between an option and its value, also in a list of arguments in JSON. */
const GAP = "(?:\\\\{0,4}[\"']?[\\s,=]{1,4})?";
/** Programs, the option, and whether its value may be an argument of its own. */
const OPTIONS: readonly (readonly [programs: string, option: string, isApart: boolean])[] = [
  ["(?:mysql|mariadb)[a-z-]{0,20}|mycli|7z[arz]?|unrar|rar", "-p", false],
  ["sshpass|mongo[a-z]{0,10}|cqlsh|rabbitmqadmin|netexec|nxc|crackmapexec|evil-winrm", "-p", true],
  ["(?:docker|podman|buildah|skopeo|nerdctl|oras|az|registry|auth)\\W{1,4}login", "-p", true],
  ["redis-cli|redis-benchmark|valkey-cli|keydb-cli", "-a", true],
  ["mosquitto_(?:pub|sub|rr)|sqlcmd|bcp|zip|unzip|ipmitool", "-P", true],
  ["ldap(?:search|add|modify|delete|passwd|whoami|compare|modrdn|exop)", "-w", true],
  ["smbclient|rpcclient|smbmap", "-U[^%\\n]{1,100}%", false],
];
/** Any of these options: most texts have none. */
const HINT = /[\s"']-[paPwU]/;
/** Characters of a command behind its name in which the option stands. */
const COMMAND_MAX = 400;

const PROGRAMS = new RegExp(
  `(?<![\\w.-])(?:${OPTIONS.map(([programs]) => `(${programs})`).join("|")})(?![\\w.-])`,
  "g",
);
/** A value in quotes, or a word. */
const VALUE =
  `(?:\\\\{0,4}(?<quote>["'])(?<quoted>(?!\\k<quote>)[^\\\\\r\\n]{1,300}?)(?=\\\\{0,4}\\k<quote>)|(?<word>[^\\s"'\`\\\\;&|<>(),]{1,300}))`;
const VALUES = OPTIONS.map(([, option, isApart]) =>
  new RegExp(`(?<=[\\s"'])(?:${option})${isApart ? GAP : ""}${VALUE}`)
);
/** End of a command: of its line, or the next one begins. */
const END = /[\r\n;|&]|\\[rn]/;
/** Ports, of which `-p` is the option of others. */
const PORTS = /^\d{1,5}(?::\d{1,5}){1,2}$/;

/** Passwords in command lines of known programs. */
export function findInCommands(text: string): Span[] {
  if (!HINT.test(text)) return [];
  return Array.from(text.matchAll(PROGRAMS)).flatMap(({ index, 0: { length }, ...groups }) => {
    const begin = index + length;
    const rest = text.slice(begin, begin + COMMAND_MAX);
    const end = rest.search(END);
    const kind = OPTIONS.findIndex((_, at) => groups[at + 1] !== undefined);
    const found = VALUES[kind].exec(end < 0 ? rest : rest.slice(0, end));
    const value = found?.groups?.quoted ?? found?.groups?.word;
    if (!found || !value || value.startsWith("-") || PORTS.test(value) || isPlaceholder(value)) return [];
    const start = begin + found.index + found[0].length - value.length;
    return [{ start, end: start + value.length }];
  });
}

// Tokens of services by the prefixes that these document. Each pattern begins at the beginning of a word, and
// has bounded repetitions: a search takes time in proportion to its text, whatever the text is.

const WORD = "[\\w-]";
const ALNUM = "[A-Za-z0-9]";
const HEX = "[0-9a-fA-F]";
const BASE64 = "[\\w+/=-]";
const DOTTED = "[\\w.=-]";
/** Longest token, in characters. */
const MOST = 4096;

/** Prefix, the characters behind it, and the fewest of these. */
const PREFIXES: readonly (readonly [prefix: string, char: string, least: number])[] = [
  ["A3-[A-Z0-9]{6}-", "[A-Z0-9-]", 20], // 1Password
  ["ops_eyJ", BASE64, 50],
  ["p8e-", ALNUM, 20], // Adobe
  ["AGE-SECRET-KEY-1", "[A-Z0-9]", 30],
  ["LTAI", ALNUM, 12], // Alibaba
  ["sk-ant-", WORD, 16],
  ["sk-(?=[A-Za-z_-]{0,99}\\d)", WORD, 20],
  ["AKCp", ALNUM, 50], // Artifactory
  ["cmVmd", ALNUM, 50],
  ["ATATT3", DOTTED, 50], // Atlassian
  ["(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)", "[A-Z0-9]", 16], // AWS
  ["ABSK", BASE64, 40], // AWS Bedrock
  ["bedrock-api-key-", BASE64, 20],
  ["4b1d", ALNUM, 38], // ClickHouse
  ["(?:CLOJARS|clojars|Clojars)_", ALNUM, 40],
  ["v1\\.0-", "[0-9a-f-]", 100], // Cloudflare
  ["dapi", HEX, 32], // Databricks
  ["dnkey-", BASE64, 40], // Defined Networking
  ["do[opr]_v1_", HEX, 40], // DigitalOcean
  ["dp\\.[a-z]{2,5}\\.", ALNUM, 40], // Doppler
  ["duffel_(?:test|live)_", BASE64, 30],
  ["dt0[a-z]\\d\\d\\.", "[A-Za-z0-9.]", 60], // Dynatrace
  ["EZ[AT]K", ALNUM, 40], // EasyPost
  ["EAA[MC]", ALNUM, 60], // Facebook
  ["EAAA", WORD, 22], // Square
  ["sq0[a-z]{3}-", WORD, 22],
  ["FLW(?:SECK|PUBK)(?:_TEST)?-", "[A-Za-z0-9-]", 12], // Flutterwave
  ["fo1_", WORD, 40], // Fly.io
  ["fm(?:1[ar]|2)_", BASE64, 60],
  ["fio-u-", BASE64, 40], // Frame.io
  ["gh[pousr]_", ALNUM, 20],
  ["github_pat_", "\\w", 20],
  ["gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|rtr|soat)-", "[\\w.-]", 15], // GitLab
  ["GR1348941", WORD, 20],
  ["eyJrIjoi", BASE64, 40], // Grafana
  ["glc_", BASE64, 30],
  ["glsa_", "\\w", 30],
  ["[ps]at\\.", DOTTED, 60], // Harness
  ["HRKU-", WORD, 40], // Heroku
  ["(?:hf|api_org)_", ALNUM, 30], // Hugging Face
  ["ico-", ALNUM, 32], // Infracost
  ["s-s4t2(?:ud|af)-", HEX, 40], // 42 Intra
  ["ZXlK", BASE64, 40], // JWT in base64
  ["lin_(?:api|oauth)_", ALNUM, 30], // Linear
  ["ntn_", ALNUM, 40], // Notion
  ["npm_", ALNUM, 30],
  ["API-", "[A-Z0-9]", 26], // Octopus Deploy
  ["sha256~", WORD, 40], // OpenShift
  ["pplx-", ALNUM, 40], // Perplexity
  ["pscale_(?:tkn|oauth|pw)_", DOTTED, 30], // PlanetScale
  ["PMAK-", "[0-9a-fA-F-]", 40], // Postman
  ["pnu_", ALNUM, 30], // Prefect
  ["pul-", HEX, 40], // Pulumi
  ["pypi-", WORD, 50],
  ["rdme_", ALNUM, 60], // ReadMe
  ["rubygems_", HEX, 40],
  ["tk-(?:us|eu)-", WORD, 40], // Scalingo
  ["SG\\.", DOTTED, 40], // SendGrid
  ["x(?:key|smtp)sib-", "[A-Za-z0-9-]", 60], // Sendinblue
  ["sntry[su]_", BASE64, 40], // Sentry
  ["sm_[aps]at_", ALNUM, 16], // SettleMint
  ["shippo_(?:live|test)_", HEX, 30],
  ["shp(?:at|ca|pa|ss)_", HEX, 30], // Shopify
  ["xox[a-z](?:\\.xox[bp])?-", WORD, 8], // Slack
  ["xapp-", WORD, 20],
  ["sgp_", "\\w", 30], // Sourcegraph
  ["(?:sk|rk)_(?:test|live|prod)_", ALNUM, 10], // Stripe
  ["whsec_", BASE64, 5],
  ["pat(?=[A-Za-z0-9]{14}\\.)", DOTTED, 60], // Airtable
  ["(?:SK|AC)", HEX, 32], // Twilio
  ["hv[bsr]\\.", WORD, 40], // Vault
  ["s\\.(?=[A-Za-z]{0,24}\\d)", ALNUM, 24],
  ["AQVN", WORD, 35], // Yandex
  ["tfp_", DOTTED, 40], // Typeform
  ["NR(?:JS|II|AK|AL)-", WORD, 15], // New Relic
  ["AIza", WORD, 30], // Google
  ["ya29\\.", WORD, 20],
  ["1//0", WORD, 30],
];

/** Tokens that no prefix identifies, as whole patterns. */
const SHAPES: readonly string[] = [
  "(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\\.[A-Za-z0-9]{4,6}\\.acc[_-][\\w.+/=-]{30,200}", // Authress
  "[\\w~.]{3}\\dQ~[\\w~.-]{31,34}", // Azure AD
  "\\d{15,16}(?:\\||%7[Cc]|%)[\\w-]{27,40}", // Facebook
  "[A-Za-z0-9]{14}\\.atlasv1\\.[\\w=-]{40,90}", // Terraform
  "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", // MaxMind
  "t1\\.[\\w-]{1,400}={0,2}\\.[\\w-]{86}={0,2}", // Yandex
  "\\d{5,16}:A[\\w-]{34}", // Telegram
  "ey[A-Za-z0-9_-]{15,1024}\\.ey[\\w-]{10,8192}\\.[\\w-]{0,2048}", // JWT
  "ey[JIA][A-Za-z0-9_-]{15,1024}\\.[\\w-]{0,2048}\\.[\\w.-]{10,8192}", // JWE
  "hooks\\.slack\\.com/(?:services|workflows|triggers)/[\\w+/-]{10,100}",
  "[a-z0-9.-]{1,80}\\.webhook\\.office\\.com/webhookb2/[\\w@/.-]{20,300}",
  "discord(?:app)?\\.com/api/webhooks/\\d{5,30}/[\\w-]{20,120}",
];

const TOKENS = new RegExp(
  `(?<![A-Za-z0-9])(?:${
    [...PREFIXES.map(([prefix, char, least]) => `${prefix}${char}{${least},${MOST}}`), ...SHAPES].join("|")
  })`,
  "g",
);

/** Tokens of known services. */
function findTokens(text: string): Span[] {
  return Array.from(text.matchAll(TOKENS), ({ index, 0: { length } }) => ({
    start: index,
    end: index + length,
  }));
}
