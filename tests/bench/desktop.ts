/**
 * The desktop page in Chromium on the real service and gateway, as processes of their own, over a home with
 * 50 VMs whose records have 10⁶ events and more: the first load, the time from a click until a page is there,
 * frames while a record of 10⁶ events scrolls, the page's requests at rest and while events come, and keys
 * meanwhile. Prints one JSON object. EVENTS chooses another size.
 */
import { dirname, join } from "node:path";
import type { Page } from "playwright-core";
import { home as homeOf } from "../../lib/base/home/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { sessionPaths, writeRecord, writeState } from "../../lib/session/mod.ts";
import { DesktopBrowser } from "../helper/browser.ts";
import { runChild } from "../helper/child.ts";
import { LiveVm, writeRecordOf } from "../helper/desktop_vms.ts";
import { fromRoot } from "../helper/repo.ts";
import { median, rounded } from "../helper/statistics.ts";
import { recordOf } from "../helper/vm.ts";

const EVENTS = Number(Deno.env.get("EVENTS") ?? 1_000_000);
const VMS = 50;
/** Events of each of the other VMs. */
const EVENTS_EACH = 1000;
/** The VM with the long record, and the one that runs. */
const LARGE = "vm-00", LIVE = "vm-49";
const ROUNDS = 7;
const FRAMES = 600;
/** Rows that a frame scrolls by: a wheel turned without a pause. */
const ROWS_PER_FRAME = 12;
const ROW_PX = 32;
const REST_MS = 10_000;
const EVENTS_PER_SECOND = 200;
const KEYS = 40;

/** Contents of a page beside its heading; the first ones are drawn from the store alone. */
const PAGES: [path: string, there: string][] = [
  ["overview", `.overview tbody tr:nth-child(${VMS})`],
  ["inbox", ".nothing, .empty, .asks"],
  ["findings", "main .empty, main table"],
  ["search", "main input"],
  ["sessions", `main tbody tr:nth-child(${VMS})`],
  ["costs", "main .empty, .cost-chart"],
  ["agents", ".agent-tiles button"],
  ["rules", "main tbody tr"],
  ["detections", "main table, main .nothing"],
  ["mcp", "main table, main .nothing"],
  ["credentials", "main table, main .nothing"],
  ["images", "main tbody tr"],
  ["settings", "main .setting"],
  ["status", "main table, main li"],
];
const VIEWS: [view: string, there: string][] = [
  ["timeline", ".events .event"],
  ["programs", "main tbody tr"],
  ["requests", ".events .event"],
  ["calls", ".conversation, main .nothing"],
  ["findings", "main .empty, main table"],
  ["logs", "main .empty, pre.log"],
];

/**
 * Watches the page. A page is there in the frame that draws what its selector finds; it
 * is whole once no answer is due.
 */
const WATCH = `(() => {
  let due = 0;
  const fetched = globalThis.fetch;
  globalThis.fetch = async (...args) => {
    due++;
    // The body is read and drawn before the next frames.
    try { return await fetched(...args); } finally { setTimeout(() => due--); }
  };
  const frame = () => new Promise(requestAnimationFrame);
  globalThis.watchClick = (selector) => {
    globalThis.clickWatched = new Promise((resolve) => {
      addEventListener("click", async ({ timeStamp, target }) => {
        const { hash } = target.closest("a");
        const title = () => location.hash === hash && document.querySelector("main h1") !== null;
        let there, calm = 0;
        for (;;) {
          await frame();
          if (there === undefined) {
            if (title() && document.querySelector(selector)) there = performance.now() - timeStamp;
          } else if (due > 0) calm = 0;
          else if (++calm === 3) break;
        }
        resolve({ there, whole: performance.now() - timeStamp });
      }, { once: true, capture: true });
    });
  };
  globalThis.scrollOn = async (count, px) => {
    const box = document.querySelector(".events");
    const frames = [];
    let tasks = 0;
    new PerformanceObserver((list) => tasks += list.getEntries().length).observe({ type: "longtask" });
    let last = await frame();
    for (let at = 0; at < count; at++) {
      box.scrollTop += px;
      const now = await frame();
      frames.push(now - last);
      last = now;
    }
    const places = [...box.querySelectorAll(".event")].map((row) => Number(row.ariaPosInSet));
    return { frames, tasks, last: Math.max(...places) };
  };
  globalThis.watchKeys = () => {
    globalThis.watchedKeys = [];
    new PerformanceObserver((list) => watchedKeys.push(...list.getEntries().map(({ duration }) => duration)))
      .observe({ type: "event", durationThreshold: 16 });
  };
})()`;

const dir = await Deno.makeTempDir({ prefix: "sbx-bench-desktop-" });
const env = { SBX_HOME: join(dir, "home"), SBX_GATEWAY_PORT: "0", NO_COLOR: "1" };
const home = homeOf({ get: (name) => name === "SBX_HOME" ? env.SBX_HOME : undefined });
const sbx = async (...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx"), { args, env });
  if (code !== 0) throw new Error(`sbx ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
};
try {
  console.log(JSON.stringify(await measure()));
} finally {
  await sbx("stop").catch((error) => console.error(error));
  await Deno.remove(dir, { recursive: true });
}

/** Names and records of all VMs. @returns id of the one that runs */
async function prepare(): Promise<string> {
  let live = "";
  for (let at = 0; at < VMS; at++) {
    const name = `vm-${String(at).padStart(2, "0")}`;
    const id = crypto.randomUUID();
    const paths = sessionPaths(home, id);
    for (const path of [paths.workspace, paths.snapshots, dirname(paths.socket), dirname(paths.ledger)]) {
      await Deno.mkdir(path, { recursive: true });
    }
    await writeRecord(paths, recordOf(id, name));
    if (name === LIVE) live = id;
    else {
      await writeState(paths, { state: "Stopped", boot_stages: [], pid: 1 });
      await using ledger = await Ledger.open(paths.ledger, { sessionId: id });
      await writeRecordOf(ledger, id, name === LARGE ? EVENTS : EVENTS_EACH);
    }
  }
  await Deno.writeTextFile(
    join(home.dir, "settings.toml"),
    '[settings."vm.templates.spare"]\nvalue = false\n',
  );
  return live;
}

async function measure() {
  const id = await prepare();
  await using live = await LiveVm.open(home, id);
  await sbx("start");
  await using desktop = await DesktopBrowser.launch();
  const { page } = desktop;
  let sockets = 0;
  page.on("websocket", () => sockets++);
  await page.addInitScript(WATCH);
  await page.goto((await sbx("desktop", "--print-url")).trim());
  const rows = page.locator(`.overview tbody tr:nth-child(${VMS})`);
  await rows.waitFor();
  const first = await measureFirst(page, rows);
  const begun = sockets;
  const pages = await measurePages(page);
  const scroll = await measureScroll(page);
  const streams = 1 + sockets - begun;
  const rest = await measureRest(page, live);
  return {
    bench: "desktop",
    load: rounded(Deno.loadavg()[0]),
    vms: VMS,
    events: EVENTS,
    ...first,
    ...pages,
    ...scroll,
    streams,
    ...rest,
  };
}

/** A cold page: nothing is in the browser's cache. */
async function measureFirst(page: Page, rows: ReturnType<Page["locator"]>) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.enable");
  const code = new Map<string, number>();
  const urls = new Map<string, string>();
  cdp.on("Network.responseReceived", ({ requestId, response }) => urls.set(requestId, response.url));
  cdp.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    const { pathname } = new URL(urls.get(requestId)!);
    if (/^\/desktop\/([\w.-]*)$/.test(pathname)) code.set(pathname, encodedDataLength);
  });
  const times = [];
  const paints = [];
  const address = page.url().split("#")[0];
  for (let round = 0; round < ROUNDS; round++) {
    await cdp.send("Network.clearBrowserCache");
    await page.goto("about:blank");
    code.clear();
    const began = performance.now();
    await page.goto(address);
    await rows.waitFor();
    times.push(performance.now() - began);
    paints.push(
      await page.evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`) as number,
    );
  }
  await cdp.detach();
  const bytes = code.values().reduce((sum, each) => sum + each, 0);
  return {
    first_load_kb: rounded(bytes / 1000),
    first_paint_ms: Math.round(median(paints)),
    first_rows_ms: Math.round(median(times)),
  };
}

/** Clicks each link of the sidebar and each view of the VM with the long record, several times. */
async function measurePages(page: Page) {
  const there: Record<string, number> = {};
  const whole: Record<string, number> = {};
  const samples: Record<string, { there: number; whole: number }[]> = {};
  const click = async (name: string, link: string, selector: string) => {
    const place = page.locator(link).first();
    await page.evaluate(`watchClick(${JSON.stringify(selector)})`);
    await place.click();
    const sample = await page.evaluate("clickWatched") as { there: number; whole: number };
    (samples[name] ??= []).push(sample);
  };
  for (let round = 0; round < ROUNDS; round++) {
    for (const [path, selector] of PAGES) await click(path, `header nav a[href="#/${path}"]`, selector);
    await click("vm", `header nav a[href="#/vm/${LARGE}"]`, VIEWS[0][1]);
    for (const [view, selector] of VIEWS.slice(1)) {
      await click(`vm/${view}`, `main nav.views a[href="#/vm/${LARGE}/${view}"]`, selector);
    }
  }
  for (const [name, all] of Object.entries(samples)) {
    there[name] = Math.round(median(all.map((each) => each.there)));
    whole[name] = Math.round(median(all.map((each) => each.whole)));
  }
  return {
    page_max_ms: Math.max(...Object.values(there)),
    page_ms: there,
    page_with_all_answers_ms: whole,
  };
}

/** Time between frames, and the thread's part of it, while the long record scrolls on without a pause. */
async function measureScroll(page: Page) {
  await page.evaluate(`location.hash = "#/vm/${LARGE}/timeline"`);
  await page.locator(".events .event").first().waitFor();
  const cdp = await page.context().newCDPSession(page);
  // Processor time of the thread, which other programs of the machine do not lengthen.
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const seconds = async () =>
    (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")!.value;
  const before = await seconds();
  const run = await page.evaluate(`scrollOn(${FRAMES}, ${ROWS_PER_FRAME * ROW_PX})`) as Scrolled;
  const cpu = await seconds() - before;
  await cdp.detach();
  const frames = run.frames.toSorted((a, b) => a - b);
  return {
    scroll_frame_cpu_ms: rounded(cpu / FRAMES * 1000),
    scroll_frame_median_ms: rounded(median(frames)),
    scroll_frame_p95_ms: rounded(frames[Math.floor(frames.length * 0.95)]),
    scroll_tasks_over_50_ms: run.tasks,
    scrolled_events: run.last,
  };
}

interface Scrolled {
  frames: number[];
  tasks: number;
  /** place of the last row in sight */
  last: number;
}

/** Requests of the page while nothing happens, and while events come; then keys. */
async function measureRest(page: Page, live: LiveVm) {
  let requests = 0;
  page.on("request", () => requests++);
  const count = async () => {
    requests = 0;
    await page.waitForTimeout(REST_MS);
    return rounded(requests / REST_MS * 1000);
  };
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable");
  const seconds = async () =>
    (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")!.value;
  await page.evaluate(`location.hash = "#/overview"`);
  await page.locator(`.overview tbody tr:nth-child(${VMS})`).waitFor();
  await page.waitForTimeout(1000);
  const before = await seconds();
  const rest = await count();
  const idle = (await seconds() - before) / REST_MS * 100_000;
  await using _flood = live.flood(EVENTS_PER_SECOND);
  await page.waitForTimeout(1000);
  const overview = await count();
  await page.evaluate(`location.hash = "#/vm/${LIVE}/timeline"`);
  await page.locator(".events .event").first().waitFor();
  await page.waitForTimeout(1000);
  const timeline = await count();
  await page.evaluate("watchKeys()");
  await page.getByLabel("Search events").focus();
  for (let key = 0; key < KEYS; key++) {
    await page.keyboard.press("x");
    await page.waitForTimeout(100);
  }
  const keys = (await page.evaluate("watchedKeys") as number[]).sort((a, b) => a - b);
  return {
    rest_percent: rounded(idle),
    requests_per_second_at_rest: rest,
    requests_per_second_overview: overview,
    requests_per_second_timeline: timeline,
    key_median_ms: median(keys) ?? 16,
    key_max_ms: keys.at(-1) ?? 16,
  };
}
