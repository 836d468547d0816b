/**
 * Backtest of a large file by the command itself, beside a plain loop of line split and `JSON.parse` over the
 * same file in the same run, and the cost of live matching. Prints one JSON object.
 */
import { type Compiled, Matcher } from "../../lib/detection/mod.ts";
import { compileRules } from "../../lib/detection/rule/compile.ts";
import { httpEvent, ir, rule } from "../helper/detection.ts";
import { httpRequest } from "../helper/event.ts";
import { fromRoot } from "../helper/repo.ts";

const EVENTS = Number(Deno.env.get("SBX_BENCH_EVENTS") ?? 1_000_000);
const LIVE_EVENTS = 200_000;
const RUNS = 2;
const KINDS = 4;

/** A policy context of about 500 bytes; one in a thousand meets a rule of a hundred. */
function contextLine(at: number): string {
  const n = at * 7919 % 100_000;
  const host = n % KINDS === 0 ? `host${n}.example.com` : `site${n}.example.net`;
  const path = n % KINDS === 1 ? `/v1/items/${n}` : `/v1/users/${n}/profile`;
  const { headers: _, ...request } = httpRequest({ method: n % 3 ? "GET" : "POST", host, path, bytes: n });
  const event_id = at.toString(16).padStart(12, "0");
  return JSON.stringify({
    schema: "sbx.policy-context-fixture.v1",
    event_ref: {
      corpus: "bench",
      session_id: "s",
      event_id,
      sequence: at,
      timestamp_unix_ms: 1_760_000_000_000 + at,
    },
    expected_labels: [],
    context: { schema_version: 1, common: { event_type: "http.request", actor: "vm" }, http: { request } },
  });
}

/** Fields and values of the nth rule: of four kinds, as packs have them. */
function testsOf(n: number): Record<string, string[] | number[]> {
  switch (n % KINDS) {
    case 0:
      return { "http.request.host": [`host${n}.example.com`, `alias${n}.example.com`] };
    case 1:
      return { "http.request.method": ["POST", "PUT"], "http.request.path": [`/v1/items/${n}`] };
    case 2:
      return { "http.request.url": [`https://evil${n}.example/a`, `https://evil${n}.example/b`] };
    default:
      return { "http.request.port": [443, 8443], "http.request.host": [`site${n}.example.net`] };
  }
}

const FIELDS: Record<string, string> = {
  "http.request.host": "Host",
  "http.request.method": "Method",
  "http.request.path": "Path",
  "http.request.url": "Url",
  "http.request.port": "Port",
};

function packText(rules: number): string {
  const sources = Array.from({ length: rules }, (_, n) =>
    `  - id: rule-${n}
    type: sigma
    format: yaml
    content: |
      title: Rule ${n}
      logsource: {product: sbx, category: http}
      detection:
        selection:
${
      Object.entries(testsOf(n)).map(([path, values]) =>
        `          ${FIELDS[path]}: ${JSON.stringify(values)}\n`
      ).join("")
    }\
        condition: selection
      level: low
`);
  const mapping = Object.entries(FIELDS).map(([path, field]) => `    ${field}: ${path}\n`).join("");
  return `schema: sbx.detection-pack.v1\nid: bench.pack\nversion: "1"\nstatus: active\nowner: user\nfield_mapping:\n  http:\n${mapping}sources:\n${
    sources.join("")
  }`;
}

/** The nth Sigma rule, of kinds as public rules have them: literals within texts, patterns, and filters. */
function sigmaRule(n: number): string {
  const detections = [
    `  sel:
    cs-host|endswith: ['host${n}.example.com', '.alias${n}.example']
    cs-method: [GET, POST]
  filter_main: {c-uri|contains: '/health${n}'}
  condition: sel and not 1 of filter_main*`,
    `  sel_uri: {c-uri|contains|all: ['/v1/items/', '/${n}']}
  sel_method: {cs-method: POST}
  condition: all of sel_*`,
    `  sel: {c-uri|contains: ['//evil${n}.example/a', 'evil${n}*.example/?b']}
  agent: {c-useragent|startswith: 'tool${n}/'}
  condition: 1 of them`,
    `  sel:
    dst_port|gte: 443
    c-uri-stem|re: '^/users/${n}/[a-z]+\\d*'
  other: {cs-host: 'site${n}.example.net', c-uri-query|windash|contains: ' -x${n}'}
  condition: sel or other`,
  ];
  return `title: Sigma rule ${n}
status: test
logsource: {category: proxy}
detection:
${detections[n % KINDS]}
level: low
`;
}

const sigmaText = (rules: number) => Array.from({ length: rules }, (_, n) => sigmaRule(n)).join("---\n");

async function writeEvents(path: string): Promise<number> {
  using file = await Deno.open(path, { create: true, write: true });
  let bytes = 0;
  for (let at = 0; at < EVENTS;) {
    let text = "";
    const end = Math.min(at + 2000, EVENTS);
    for (; at < end; at++) text += contextLine(at) + "\n";
    const chunk = new TextEncoder().encode(text);
    for (let done = 0; done < chunk.length;) done += await file.write(chunk.subarray(done));
    bytes += chunk.length;
  }
  return bytes;
}

/** The floor: what a program does that only parses each line. */
const PLAIN = `
const file = await Deno.open(Deno.args[0]);
const decoder = new TextDecoder();
let rest = "", count = 0;
for await (const chunk of file.readable) {
  const lines = (rest + decoder.decode(chunk, { stream: true })).split("\\n");
  rest = lines.pop();
  for (const line of lines) if (JSON.parse(line)) count++;
}
console.log(JSON.stringify({ event_count: count }));
`;

/** Time and memory of a program. */
interface Took {
  seconds: number;
  /** of the processor, by all its threads */
  cpuSeconds: number;
  peakMb: number;
  out: Record<string, number>;
}

/** Ticks of /proc/PID/stat in a second. */
const TICKS = 100;

/** Runs a program to its end. */
async function run(args: string[]): Promise<Took> {
  const started = performance.now();
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--quiet", ...args],
    cwd: fromRoot(""),
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let [peakMb, cpuSeconds] = [0, 0];
  const watch = setInterval(async () => {
    const status = await Deno.readTextFile(`/proc/${child.pid}/status`).catch(() => "");
    peakMb = Math.max(peakMb, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1000);
    const stat = (await Deno.readTextFile(`/proc/${child.pid}/stat`).catch(() =>
      ""
    )).split(") ")[1]?.split(" ") ?? [];
    cpuSeconds = Math.max(cpuSeconds, (Number(stat[11] ?? 0) + Number(stat[12] ?? 0)) / TICKS);
  }, 20);
  const { stdout } = await child.output();
  clearInterval(watch);
  const seconds = (performance.now() - started) / 1000;
  return { seconds, cpuSeconds, peakMb, out: JSON.parse(new TextDecoder().decode(stdout)) };
}

/** The best of several runs: what else the machine does only makes them slower. */
function best(runs: Took[]): Took {
  const least = (key: "seconds" | "cpuSeconds") => Math.min(...runs.map((run) => run[key]));
  return {
    seconds: least("seconds"),
    cpuSeconds: least("cpuSeconds"),
    peakMb: Math.max(...runs.map((run) => run.peakMb)),
    out: runs[0].out,
  };
}

/** Rules that differ in their values only. */
const exactRules = (rules: number) =>
  ir(Array.from({ length: rules }, (_, n) => rule(`rule-${n}`, testsOf(n))));
const sigmaRules = (rules: number) =>
  compileRules([{ path: "bench.yml", text: sigmaText(rules) }], { pack_id: "sigma.bench" }).plan;

/** Microseconds that matching adds to an event. */
function live(rules: Compiled): number {
  const matcher = new Matcher([rules]);
  const texts = Array.from({ length: 2000 }, (_, at) => {
    const n = at * 7919 % 100_000;
    return JSON.stringify(httpEvent(at, { host: `host${n}.example.com`, path: `/v1/items/${n}` }));
  });
  let took = 0;
  for (let done = 0; done < LIVE_EVENTS; done += texts.length) {
    // Fresh ones each time: the texts of an event that just came are not hashed yet.
    const events = texts.map((text) => JSON.parse(text));
    const started = performance.now();
    for (const event of events) matcher.match(event);
    took += performance.now() - started;
  }
  return took * 1000 / LIVE_EVENTS;
}

const round = (value: number) => Math.round(value * 1000) / 1000;
const dir = await Deno.makeTempDir();
try {
  const events = `${dir}/events.jsonl`;
  const bytes = await writeEvents(events);
  await Deno.writeTextFile(`${dir}/plain.ts`, PLAIN);
  for (const count of [100, 3000]) {
    await Deno.writeTextFile(`${dir}/${count}.yaml`, packText(count));
    await Deno.writeTextFile(`${dir}/sigma-${count}.yaml`, sigmaText(count));
  }
  const one = `${dir}/one.jsonl`;
  await Deno.writeTextFile(one, `${contextLine(0)}\n`);
  const backtest = (count: number | string, file = events) =>
    run([
      "main.ts",
      "admin",
      "detection",
      "backtest",
      `${dir}/${count}.yaml`,
      "--events",
      file,
      "--limit",
      "0",
      "--json",
    ]);
  // The file is in the page cache for all of them.
  await Deno.readFile(events);
  const [plains, smalls, larges, sigmaSmalls, sigmaLarges]: Took[][] = [[], [], [], [], []];
  const starts: Record<string, Took[]> = { 100: [], 3000: [], "sigma-100": [], "sigma-3000": [] };
  for (let at = 0; at < RUNS; at++) {
    plains.push(await run([`${dir}/plain.ts`, events]));
    smalls.push(await backtest(100));
    larges.push(await backtest(3000));
    sigmaSmalls.push(await backtest("sigma-100"));
    sigmaLarges.push(await backtest("sigma-3000"));
    for (const rules of Object.keys(starts)) starts[rules].push(await backtest(rules, one));
  }
  const [plain, small, large, sigmaSmall, sigmaLarge] = [plains, smalls, larges, sigmaSmalls, sigmaLarges]
    .map(best);
  const startOf = (rules: number | string) => best(starts[rules]).cpuSeconds;
  /** Growth of the processor time of an event: without the start, which reads the rules. */
  const growth = (few: Took, many: Took, kind: string) =>
    (many.cpuSeconds - startOf(`${kind}3000`)) / (few.cpuSeconds - startOf(`${kind}100`));
  console.log(JSON.stringify({
    name: "detection",
    events: EVENTS,
    bytes_per_event: Math.round(bytes / EVENTS),
    plain_loop_events_per_s: Math.round(EVENTS / plain.seconds),
    backtest_100_events_per_s: Math.round(EVENTS / small.seconds),
    ratio_to_plain_loop: round(plain.seconds / small.seconds),
    ratio_of_cpu_time: round(plain.cpuSeconds / small.cpuSeconds),
    growth_100_to_3000: round(large.seconds / small.seconds),
    growth_of_cpu_time: round(large.cpuSeconds / small.cpuSeconds),
    growth_of_event: round(growth(small, large, "")),
    matches: [small.out.match_count, large.out.match_count],
    peak_rss_mb: [Math.round(small.peakMb), Math.round(large.peakMb)],
    live_us_100: round(live(exactRules(100))),
    live_us_1000: round(live(exactRules(1000))),
    live_us_10000: round(live(exactRules(10_000))),
    backtest_3000_events_per_s: Math.round(EVENTS / large.seconds),
    sigma_backtest_3000_events_per_s: Math.round(EVENTS / sigmaLarge.seconds),
    sigma_ratio_to_exact_3000: round(large.seconds / sigmaLarge.seconds),
    sigma_ratio_of_cpu_time: round(large.cpuSeconds / sigmaLarge.cpuSeconds),
    sigma_growth_100_to_3000: round(sigmaLarge.seconds / sigmaSmall.seconds),
    sigma_growth_of_event: round(growth(sigmaSmall, sigmaLarge, "sigma-")),
    sigma_start_s: [startOf("sigma-100"), startOf("sigma-3000")],
    sigma_matches: [sigmaSmall.out.match_count, sigmaLarge.out.match_count],
    sigma_live_us_100: round(live(sigmaRules(100))),
    sigma_live_us_3000: round(live(sigmaRules(3000))),
    sigma_live_us_10000: round(live(sigmaRules(10_000))),
  }));
} finally {
  await Deno.remove(dir, { recursive: true });
}
