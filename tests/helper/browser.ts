/** Debian's Chromium on the desktop page of one home, for tests. */
import axe from "axe-core";
import {
  type Browser,
  type BrowserContext,
  chromium,
  type Locator,
  type Page,
  type Request,
} from "playwright-core";
import { ignore } from "../../lib/base/error/mod.ts";
import { timeLimit } from "../../lib/base/time/mod.ts";
import { READ_MS } from "../../lib/policy/ask/limit.ts";
import type { Sbx } from "./sbx.ts";

/** Folder of the pages as pictures, for the eyes of their makers; without it no picture is made. */
export const SHOTS = Deno.env.get("SBX_TEST_SHOTS");

const CHROMIUM = "/usr/bin/chromium";
/** `ms` that a step waits, as long as `eventually` does: a machine under load boots a VM in a minute. */
const WAIT_MS = 180_000;

/** What {@linkcode DesktopBrowser.focuses} uses of the page that it runs in. */
interface Dom {
  document: { body: unknown; activeElement: unknown; querySelector(selector: string): unknown };
  MutationObserver: new (changed: () => void) => {
    observe(target: unknown, what: { childList: boolean; subtree: boolean }): void;
    disconnect(): void;
  };
}

/** A browser with one page, and everything in it that a page must not do. */
export class DesktopBrowser {
  /** errors of scripts, and violations of the content security policy */
  readonly problems: string[] = [];
  /** origins that pages asked for something */
  readonly origins = new Set<string>();

  /** requests of {@linkcode page} that are not answered */
  readonly #pending = new Set<Request>();

  private constructor(readonly browser: Browser, readonly context: BrowserContext, readonly page: Page) {}

  /** Starts Chromium without a page of its own; its sandbox needs a user who is not root. */
  static async launch(): Promise<DesktopBrowser> {
    const browser = await chromium.launch({
      executablePath: CHROMIUM,
      args: ["--no-sandbox"],
      timeout: timeLimit(WAIT_MS),
    });
    // Without motion no colour is on its way to another one while it is looked at.
    const context = await newContext(browser);
    const desktop = new DesktopBrowser(browser, context, await context.newPage());
    context.on("page", (page) => desktop.#watch(page));
    desktop.#watch(desktop.page);
    return desktop;
  }

  #watch(page: Page): void {
    page.on("pageerror", (error) => this.problems.push(String(error)));
    page.on("console", (message) => {
      if (/Content Security Policy|TrustedHTML|TrustedScript/.test(message.text())) {
        this.problems.push(message.text());
      }
    });
    page.on("request", (request) => {
      this.origins.add(new URL(request.url()).origin);
      if (page === this.page) this.#pending.add(request);
    });
    page.on("response", (response) => {
      if (response.status() < 400) return;
      // Its message is shown as it is: a pattern says nothing to a person.
      const check = async () => {
        const { error } = await response.json();
        if (isPattern(String(error))) this.problems.push(`a pattern as a message: ${error}`);
      };
      // A page that left has no answer, and an answer of another kind no message.
      check().catch(ignore("there is no message"));
    });
    page.on("requestfinished", (request) => this.#pending.delete(request));
    page.on("requestfailed", (request) => this.#pending.delete(request));
  }

  /** A browser without a session, beside this one. */
  newContext(): Promise<BrowserContext> {
    return newContext(this.browser);
  }

  /** Signs the page in with a new address of `sbx desktop`. */
  async signIn(sbx: Sbx): Promise<void> {
    await this.page.goto((await sbx.ok("desktop", "--print-url")).trim());
    await this.page.locator("main h1").first().waitFor();
  }

  /** Origin of the page's own gateway, which another gateway's page does not have. */
  get origin(): string {
    return new URL(this.page.url()).origin;
  }

  /** Opens a page of the desktop by the words of its address. */
  async open(...words: string[]): Promise<void> {
    await this.page.evaluate(`location.hash = ${JSON.stringify(`#/${words.join("/")}`)}`);
  }

  /** Waits until a page has what it asked for, and what it asks for then, and has drawn it. */
  async settled(): Promise<void> {
    const drawn = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))";
    do {
      for (const request of this.#pending) await request.response().then((answer) => answer?.finished());
      await this.page.evaluate(drawn);
    } while (this.#pending.size > 0);
  }

  /**
   * Presses a button, and looks at once when `selector` is there: before the first frame that shows it, so
   * before anything is typed into it.
   *
   * @returns whether it has the focus already
   */
  focuses(button: Locator, selector: string): Promise<boolean> {
    return button.evaluate((element: { click(): void }, selector) =>
      new Promise((resolve) => {
        const { document, MutationObserver } = globalThis as unknown as Dom;
        const observer = new MutationObserver(() => {
          const found = document.querySelector(selector);
          if (found === null) return;
          observer.disconnect();
          resolve(document.activeElement === found);
        });
        observer.observe(document.body, { childList: true, subtree: true });
        element.click();
      }), selector);
  }

  /**
   * Waits until the shown ask takes answers. In the page: its clock counts from the frame in which it drew
   * them, which may be later than the one in which a test found them.
   */
  async read(): Promise<void> {
    await this.page.evaluate(
      `new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(resolve, ${READ_MS}))))`,
    );
  }

  /**
   * What axe-core finds on the page as it is, as `rule: element`.
   *
   * @param rules the only rules to try; default: all
   */
  async violations(...rules: string[]): Promise<string[]> {
    // Half a megabyte, which a document needs once.
    if (!await this.page.evaluate("typeof axe === 'object'")) await this.page.evaluate(axe.source);
    const options = { resultTypes: ["violations"], ...(rules.length > 0 && { runOnly: rules }) };
    const { violations } = await this.page.evaluate(`axe.run(document, ${JSON.stringify(options)})`) as {
      violations: { id: string; nodes: { html: string }[] }[];
    };
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.browser.close();
  }
}

/** True where a message has a regular expression instead of words. */
export function isPattern(message: string): boolean {
  return /must match pattern|\/\^|\$\/|\\[dwsp]/.test(message);
}

async function newContext(browser: Browser): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: { width: 1200, height: 800 },
    locale: "en-GB",
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(timeLimit(WAIT_MS));
  return context;
}

/** Takes pictures of a page: both themes, wide and narrow, where {@linkcode SHOTS} names a folder. */
export async function shoot({ page }: DesktopBrowser, name: string): Promise<void> {
  if (!SHOTS) return;
  for (const theme of ["light", "dark"] as const) {
    for (const [width, height] of [[1440, 900], [390, 844]]) {
      await page.emulateMedia({ colorScheme: theme });
      await page.setViewportSize({ width, height });
      await page.screenshot({ path: `${SHOTS}/${name}_${theme}_${width}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1200, height: 800 });
}
