/**
 * PAC files: a program in JavaScript that names the proxy of an address. It is run in a worker with a limit
 * of memory and of time, in a realm that has the language alone: no file, no network, no object of this
 * program. Names that it wants resolved are resolved here, and it is run again with the answer.
 */
import { networkInterfaces } from "node:os";
import { lookup } from "node:dns/promises";
import { SbxError } from "../error/mod.ts";
import { directClient } from "./direct.ts";
import { timeLimit } from "../time/mod.ts";

/** Largest file, in `bytes` (docs/design/contracts/14-limits.md §14). */
const FILE_MAX = 1024 * 1024;
/** Longest time of fetching the file, and of one question to it, in `ms`. */
const FETCH_MS = timeLimit(15_000), ANSWER_MS = timeLimit(15_000);
/**
 * Longest processor time of one question in `ms`, counted by Linux for the worker's thread: a busy machine
 * ends no file that would answer, and one that loops holds a connection for little longer. How often it is
 * read.
 */
const ANSWER_CPU_MS = 2000, CPU_CHECK_MS = 100;
/**
 * Checks in a row at which a worker with a question sleeps: V8 ended its program at the limit of memory, and
 * Deno reports that nowhere. A thread that waits for a processor does not sleep.
 */
const ASLEEP_MAX = 5;
/** Unit of processor time in /proc, in `ms`: USER_HZ is 100 on every architecture that sbx runs on. */
const TICK_MS = 10;
/** Memory of the worker, in MiB. */
const MEMORY_MB = 32;
/** Names that one question may have resolved, proxies of one answer, and characters of it. */
const NAMES_MAX = 16, WAYS_MAX = 8, ANSWER_MAX = 2048;
/** Lives of an answer, of the file, and of a file that cannot be read again, in `ms`; answers kept. */
const ANSWER_LIFE_MS = 60_000, FILE_LIFE_MS = 30 * 60_000, OLD_FILE_LIFE_MS = 60_000, ANSWERS_MAX = 1000;
/** Workers at once, and questions that may wait for one: a guest chooses how many hosts it connects to. */
const WORKERS_MAX = 4, WAITING_MAX = 256;

/** An address whose way a PAC file decides on. */
export interface Sought {
  scheme: string;
  host: string;
  port: number;
  /** of the host, where policy decided on one */
  address?: string;
}

/** Names of ways in PAC, and as URLs. */
const WAYS: Record<string, string> = {
  PROXY: "http",
  HTTP: "http",
  HTTPS: "https",
  SOCKS: "socks5",
  SOCKS5: "socks5",
};

/** A PAC file at an address, read when it is first asked. */
export class PacFile {
  readonly #url: URL;
  readonly #answers = new Map<string, { until: number; ways: Promise<(string | undefined)[]> }>();
  #text?: { until: number; read: Promise<string> };
  #workers = 0;
  readonly #waiting: (() => void)[] = [];

  /** @throws {SbxError} `network.proxy.invalid` */
  constructor(address: string) {
    const url = URL.parse(address);
    if (!url || !/^(https?|file):$/.test(url.protocol) || url.username || url.password) {
      // Without the text: it may hold a password.
      throw invalid(
        "the address after pac+ is not a PAC file's",
        "write pac+https://HOST/proxy.pac, or pac+file:///PATH",
      );
    }
    this.#url = url;
  }

  /**
   * Proxies as URLs, in order; `undefined` is a direct connection.
   * @throws {SbxError} `network.proxy.failed`
   */
  find(sought: Sought, caCerts: string[] = []): Promise<(string | undefined)[]> {
    const { scheme, host, port, address } = sought;
    const key = `${scheme}://${host}:${port} ${address ?? ""}`;
    const kept = this.#answers.get(key);
    if (kept && kept.until > Date.now()) return kept.ways;
    const ways = this.#ask(sought, caCerts);
    // A failure is asked for again.
    ways.catch(() => this.#answers.delete(key));
    if (this.#answers.size >= ANSWERS_MAX) this.#answers.clear();
    this.#answers.set(key, { until: Date.now() + ANSWER_LIFE_MS, ways });
    return ways;
  }

  async #ask({ scheme, host, port, address }: Sought, caCerts: string[]): Promise<(string | undefined)[]> {
    const text = await this.#read(caCerts);
    const name = host.includes(":") ? `[${host}]` : host;
    const isUsual = port === (scheme === "https" ? 443 : 80);
    // As browsers ask: without the path, which may hold secrets.
    const url = `${scheme}://${name}${isUsual ? "" : `:${port}`}/`;
    // An address that policy decided on is the name's.
    const known = address !== undefined && !address.includes(":") ? { [host]: address } : {};
    return this.#waysOf(await this.#inTurn(() => evaluate(text, { url, host, known })));
  }

  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    if (this.#workers < WORKERS_MAX) this.#workers++;
    else if (this.#waiting.length >= WAITING_MAX) throw this.#failed("has too many questions to answer");
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await run();
    } finally {
      // The turn is the next one's.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#workers--;
    }
  }

  #waysOf(answer: string): (string | undefined)[] {
    const parts = answer.split(";").map((part) => part.trim()).filter((part) => part !== "").slice(
      0,
      WAYS_MAX,
    );
    const ways = parts.map((part) => {
      const [, kind, place] = /^([A-Za-z0-9]+)(?:\s+([A-Za-z0-9._:[\]-]{1,300}))?$/.exec(part) ?? [];
      if (kind?.toUpperCase() === "DIRECT") return undefined;
      const scheme = WAYS[kind?.toUpperCase() ?? ""];
      if (scheme === undefined || place === undefined) {
        throw this.#failed(`answered "${shown(part.slice(0, 100))}"`);
      }
      return `${scheme}://${place}`;
    });
    // No answer is a direct connection, for browsers.
    return ways.length > 0 ? ways : [undefined];
  }

  #read(caCerts: string[]): Promise<string> {
    if (this.#text && this.#text.until > Date.now()) return this.#text.read;
    const before = this.#text?.read;
    const next = { until: Date.now() + FILE_LIFE_MS, read: this.#fetch(caCerts) };
    // The one of before is better than no way at all.
    if (before) {
      next.read = next.read.catch(() => {
        next.until = Date.now() + OLD_FILE_LIFE_MS;
        return before;
      });
    }
    next.read.catch(() => this.#text = undefined);
    this.#text = next;
    return next.read;
  }

  async #fetch(caCerts: string[]): Promise<string> {
    const signal = AbortSignal.timeout(FETCH_MS);
    try {
      if (this.#url.protocol === "file:") {
        const { isFile, size } = await Deno.stat(this.#url);
        if (!isFile || size > FILE_MAX) throw new Deno.errors.InvalidData("no file of at most 1 MiB");
        return await Deno.readTextFile(this.#url);
      }
      using client = directClient(caCerts);
      // The page's check of types reads this file too, and has none for Deno's `client`.
      const response = await fetch(this.#url, { client, signal } as RequestInit);
      if (!response.ok || !response.body) throw new Deno.errors.NotFound(`status ${response.status}`);
      const decoder = new TextDecoder();
      let text = "";
      for await (const chunk of response.body) {
        text += decoder.decode(chunk, { stream: true });
        if (text.length > FILE_MAX) throw new Deno.errors.InvalidData("more than 1 MiB");
      }
      return text;
    } catch (cause) {
      throw this.#failed("cannot be read", cause);
    }
  }

  #failed(what: string, cause?: unknown): SbxError {
    // Without its query, which may hold a secret.
    const { protocol, host, pathname } = this.#url;
    const address = `${protocol}//${host}${pathname}`.slice(0, 300);
    return new SbxError("network.proxy.failed", `the PAC file ${address} ${what}`, {
      cause,
      hint:
        "nothing is sent around it; ask its administrator, or set network.upstream_proxy to the proxy itself",
    });
  }
}

function invalid(message: string, hint: string): SbxError {
  return new SbxError("network.proxy.invalid", message, { hint });
}

/** Text of the file, which may rewrite a terminal. */
function shown(text: string): string {
  return text.slice(0, 200).replace(/[^\x20-\x7e]/g, "?");
}

interface Question {
  url: string;
  host: string;
  /** addresses of names, empty: it has none */
  known: Record<string, string>;
}

/** Asks the file in a worker. @throws {SbxError} `network.proxy.failed` */
async function evaluate(text: string, { url, host, known }: Question): Promise<string> {
  const { Worker } = await import("node:worker_threads");
  const worker = new Worker(WORKER, {
    eval: true,
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB, maxYoungGenerationSizeMb: MEMORY_MB / 4 },
    workerData: { prelude: PRELUDE, text },
  });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const refuse = (why: string) =>
    reject(
      new SbxError("network.proxy.failed", `the PAC file ${why}`, {
        hint:
          "nothing is sent around it; ask its administrator, or set network.upstream_proxy to the proxy itself",
      }),
    );
  const timer = setTimeout(() => refuse("did not answer in time"), ANSWER_MS);
  const addresses = { ...known };
  let names = 0;
  worker.on("error", ({ message }: Error) => refuse(`ended its worker: ${shown(message)}`));
  let watch: ReturnType<typeof setInterval> | undefined;
  // Not while a name is resolved for it.
  let isAsked = true;
  worker.on("message", async (message: unknown) => {
    const { answer, wanted, problem, thread } = message as Record<string, unknown>;
    // It comes before the file is run.
    if (typeof thread === "number") {
      let asleep = 0;
      watch ??= setInterval(() => {
        const { cpuMs, isAsleep } = threadState(thread);
        if (cpuMs > ANSWER_CPU_MS) return refuse("computes for too long");
        asleep = isAsleep && isAsked ? asleep + 1 : 0;
        if (asleep >= ASLEEP_MAX) refuse(`ended without an answer, as with more than ${MEMORY_MB} MiB`);
      }, CPU_CHECK_MS);
      return;
    }
    isAsked = false;
    if (typeof answer === "string" && answer.length <= ANSWER_MAX) return resolve(answer);
    if (typeof wanted !== "string" || wanted.length > 255 || ++names > NAMES_MAX) {
      return refuse(typeof problem === "string" ? `failed: ${shown(problem)}` : "gave no answer");
    }
    addresses[wanted] = wanted === "" ? ownAddress() : await addressOf(wanted);
    worker.postMessage({ url, host, addresses });
    isAsked = true;
  });
  worker.postMessage({ url, host, addresses });
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    clearInterval(watch);
    await worker.terminate();
  }
}

/** Processor time of a thread of this process, and whether it sleeps. */
function threadState(thread: number): { cpuMs: number; isAsleep: boolean } {
  try {
    const stat = Deno.readTextFileSync(`/proc/self/task/${thread}/stat`);
    // After the name, which may have blanks and brackets: the state is field 3, utime and stime 14 and 15.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS, isAsleep: fields[0] === "S" };
  } catch {
    // The thread is gone.
    return { cpuMs: 0, isAsleep: true };
  }
}

/** The first address of a name, by this machine's resolver; empty: it has none. */
async function addressOf(name: string): Promise<string> {
  return await lookup(name, 4).then(({ address }) => address, () => "");
}

function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return all.find(({ family, internal }) => family === "IPv4" && !internal)?.address ?? "127.0.0.1";
}

/**
 * Only texts pass between the realm of the file and the worker: an object of one would lead into the other.
 */
const WORKER = `
const { parentPort, workerData: { prelude, text } } = require("node:worker_threads");
const vm = require("node:vm");
try {
  const [, thread] = /^\\d+\\/task\\/(\\d+)$/.exec(require("node:fs").readlinkSync("/proc/thread-self")) ?? [];
  if (thread) parentPort.postMessage({ thread: Number(thread) });
} catch {
  // Another system than Linux: the time alone is limited.
}
parentPort.on("message", ({ url, host, addresses }) => {
  let out;
  try {
    const context = vm.createContext(Object.create(null), { codeGeneration: { strings: false, wasm: false } });
    vm.runInContext("const __sbx = " + JSON.stringify({ addresses }) + ";" + prelude, context);
    vm.runInContext(text, context, { filename: "proxy.pac" });
    out = vm.runInContext(
      "(() => { try { return 'A' + FindProxyForURL(" + JSON.stringify(url) + ", " + JSON.stringify(host) + ") }" +
        " catch (e) { return __sbx.wanted === undefined ? 'P' + e : 'W' + __sbx.wanted } })()",
      context,
    );
  } catch {
    out = "Pit is not a program that this machine can run";
  }
  if (typeof out !== "string") out = "P";
  const kind = { A: "answer", W: "wanted", P: "problem" }[out[0]];
  parentPort.postMessage({ [kind]: out.slice(1) });
});
`;

/**
 * Functions of PAC files, as Netscape described them and browsers have them. No object of the language that
 * stays makes memory outside of the heap, which the worker's limit does not count.
 */
const PRELUDE = String.raw`
for (const name of Object.getOwnPropertyNames(globalThis)) {
  if (name !== "Array" && /Array$|Buffer$|^(?:Atomics|DataView|Intl|WebAssembly)$/.test(name)) delete globalThis[name];
}
const dnsResolve = (host) => {
  host = String(host);
  if (/^\d+\.\d+\.\d+\.\d+$/.test(host)) return host;
  if (!Object.hasOwn(__sbx.addresses, host)) { __sbx.wanted = host; throw new Error("wanted"); }
  return __sbx.addresses[host] || null;
};
const myIpAddress = () => {
  if (!Object.hasOwn(__sbx.addresses, "")) { __sbx.wanted = ""; throw new Error("wanted"); }
  return __sbx.addresses[""];
};
const isPlainHostName = (host) => !/[.:]/.test(host);
const dnsDomainIs = (host, domain) => host.length >= domain.length && host.toLowerCase().endsWith(domain.toLowerCase());
const localHostOrDomainIs = (host, hostdom) => host === hostdom || (!host.includes(".") && hostdom.startsWith(host + "."));
const isResolvable = (host) => dnsResolve(host) !== null;
const convert_addr = (text) => {
  const p = String(text).split(".").map(Number);
  return ((p[0] & 255) << 24 | (p[1] & 255) << 16 | (p[2] & 255) << 8 | p[3] & 255) >>> 0;
};
const isInNet = (host, pattern, mask) => {
  const address = dnsResolve(host);
  if (address === null) return false;
  return ((convert_addr(address) & convert_addr(mask)) >>> 0) === ((convert_addr(pattern) & convert_addr(mask)) >>> 0);
};
const dnsDomainLevels = (host) => host.split(".").length - 1;
const shExpMatch = (text, pattern) =>
  new RegExp("^" + pattern.replace(/[.+^$(){}|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".") + "$", "i").test(text);
const alert = () => {};
const __now = (args) => args.at(-1) === "GMT"
  ? [args.slice(0, -1), new Date(Date.now() + new Date().getTimezoneOffset() * 60000)] : [args, new Date()];
const __within = (now, from, to) => from <= to ? from <= now && now <= to : now >= from || now <= to;
const __DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const __MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const weekdayRange = (...given) => {
  const [[from, to = from], now] = __now(given);
  return __within(now.getDay(), __DAYS.indexOf(from), __DAYS.indexOf(to));
};
const timeRange = (...given) => {
  const [args, now] = __now(given);
  const seconds = now.getHours() * 3600 + now.getMinutes() * 60 + now.getSeconds();
  const n = args.map(Number);
  if (n.length === 1) return now.getHours() === n[0];
  if (n.length === 2) return __within(now.getHours(), n[0], n[1] - (n[0] < n[1] ? 1 : 0));
  if (n.length === 4) return __within(seconds, n[0] * 3600 + n[1] * 60, n[2] * 3600 + n[3] * 60);
  return __within(seconds, n[0] * 3600 + n[1] * 60 + n[2], n[3] * 3600 + n[4] * 60 + n[5]);
};
const dateRange = (...given) => {
  const [args, now] = __now(given);
  const part = (value) => typeof value === "string" ? { month: __MONTHS.indexOf(value) } : value > 31 ? { year: value } : { day: value };
  const half = args.length > 1 ? args.length / 2 : 1;
  const from = Object.assign({}, ...args.slice(0, half).map(part));
  const to = args.length > 1 ? Object.assign({}, ...args.slice(half).map(part)) : from;
  const order = (p, d) => [["year", d.getFullYear()], ["month", d.getMonth()], ["day", d.getDate()]]
    .filter(([key]) => p[key] !== undefined).reduce((sum, [key, own], at, all) => [sum[0] * 400 + p[key], sum[1] * 400 + own], [0, 0]);
  const [low, nowLow] = order(from, now);
  const [high] = order(to, now);
  return __within(nowLow, low, high);
};
`;
