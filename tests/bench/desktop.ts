/**
 * The desktop page in Chromium, on the gateway's own code with a service of canned answers behind it: first paint with 50
 * VMs, frames while a timeline of 100,000 events scrolls, keys during 1,000 events a second, and the page at rest.
 */
import { join } from "node:path";
import { chromium } from "playwright-core";
import {
  desktopFolder,
  DesktopGate,
  DesktopPage,
  gatewayHandler,
  GatewayRun,
  methodMatcher,
  ROUTES,
  Sessions,
  TokenGate,
  Upstream,
} from "../../lib/client/gateway/mod.ts";
import { cannedService } from "../helper/desktop_service.ts";

const EVENTS = 100_000;
const EVENTS_PER_SECOND = 1000;
const IDLE_MS = 10_000;
const SCROLLS = 300;
const KEYS = 40;

const dir = await Deno.makeTempDir();
const socket = join(dir, "s");
const canned = cannedService(EVENTS);
Deno.serve({ path: socket, onListen() {} }, canned.serve);
const upstream = new Upstream(socket);
const run = await GatewayRun.make();
const gate = new DesktopGate(run, new Sessions(), new DesktopPage(desktopFolder()));
const gateway = Deno.serve(
  { hostname: "127.0.0.1", port: 0, onListen() {} },
  gatewayHandler({
    gate: new TokenGate("token"),
    desktop: gate,
    methodsOf: methodMatcher(ROUTES),
    upstream,
    socketClient: Deno.createHttpClient({ proxy: { transport: "unix", path: socket } }),
    version: "0",
    log: { error: console.error, debug() {} },
  }),
);
const base = `http://${run.hostname}:${gateway.addr.port}/desktop/`;
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage();
await page.goto(`${base}#code=${(await gate.issue().json()).code}`);
await page.getByRole("row", { name: /vm-49/ }).waitFor();

const first = await measureFirst();
const idle = await measureIdle();
const scroll = await measureScroll();
const keys = await measureKeys();
console.log(
  JSON.stringify({ name: "desktop", load: Deno.loadavg()[0], ...first, ...idle, ...scroll, ...keys }),
);
await browser.close();
Deno.exit(0);

/** A cold page: nothing is in the browser's cache. */
async function measureFirst() {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Network.clearBrowserCache");
  await page.goto("about:blank");
  const began = performance.now();
  await page.goto(base);
  await page.getByRole("row", { name: /vm-49/ }).waitFor();
  const rows_ms = Math.round(performance.now() - began);
  const paint = await page.evaluate(`performance.getEntriesByName("first-contentful-paint")[0].startTime`);
  return { first_paint_ms: Math.round(paint as number), fifty_rows_ms: rows_ms };
}

/** Processor time of the page's thread while nothing happens, in percent. */
async function measureIdle() {
  const cdp = await page.context().newCDPSession(page);
  // Counted from here on.
  await cdp.send("Performance.enable");
  const taskSeconds = async () => {
    const { metrics } = await cdp.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration")!.value;
  };
  await page.waitForTimeout(1000);
  const before = await taskSeconds();
  await page.waitForTimeout(IDLE_MS);
  return { idle_percent: round((await taskSeconds() - before) / IDLE_MS * 100_000) };
}

/** Time between frames, and tasks of the page's thread, while the list scrolls from end to end. */
async function measureScroll() {
  const began = performance.now();
  await page.evaluate(`globalThis.loadTasks = [];
    new PerformanceObserver((list) => loadTasks.push(...list.getEntries().map(({ duration }) => duration)))
      .observe({ type: "longtask" });
    location.hash = "#/vm/vm-0/timeline"`);
  await page.getByText(`${EVENTS} events`).waitFor({ timeout: 120_000 });
  const timeline_read_ms = Math.round(performance.now() - began);
  const load = await page.evaluate("loadTasks") as number[];
  const run = `new Promise((done) => {
    const box = document.querySelector(".events"), tasks = [], frames = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries())).observe({ type: "longtask" });
    let last = performance.now(), count = 0;
    const step = () => {
      const now = performance.now();
      frames.push(now - last);
      last = now;
      box.scrollTop = box.scrollHeight * (count / ${SCROLLS});
      if (count++ < ${SCROLLS}) requestAnimationFrame(step);
      else done({ frames: frames.slice(1).sort((a, b) => a - b), tasks: tasks.length });
    };
    requestAnimationFrame(step);
  })`;
  // Processor time of the thread, which other programs of the machine do not lengthen.
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const cpuSeconds = async () =>
    (await cdp.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")!.value;
  const before = await cpuSeconds();
  const { frames, tasks } = await page.evaluate(run) as { frames: number[]; tasks: number };
  const cpu = await cpuSeconds() - before;
  return {
    timeline_read_ms,
    frame_cpu_ms: round(cpu / SCROLLS * 1000),
    read_tasks_over_50_ms: load.length,
    read_task_max_ms: Math.max(0, ...load),
    frame_median_ms: round(frames[Math.floor(frames.length / 2)]),
    frame_max_ms: round(frames.at(-1)!),
    tasks_over_50_ms: tasks,
  };
}

/** From a key to the paint after it, while events come. */
async function measureKeys() {
  await page.evaluate(`globalThis.keys = [];
    new PerformanceObserver((list) => keys.push(...list.getEntries().map(({ duration }) => duration)))
      .observe({ type: "event", durationThreshold: 16 })`);
  canned.flood(EVENTS_PER_SECOND);
  await page.waitForTimeout(2000);
  await page.getByLabel("Search events").focus();
  for (let count = 0; count < KEYS; count++) {
    await page.keyboard.press("x");
    await page.waitForTimeout(100);
  }
  const durations = (await page.evaluate("keys") as number[]).sort((a, b) => a - b);
  return {
    key_median_ms: durations[Math.floor(durations.length / 2)] ?? 16,
    key_max_ms: durations.at(-1) ?? 16,
  };
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
