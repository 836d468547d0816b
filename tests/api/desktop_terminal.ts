/**
 * Terminals on the desktop page: an outage, text without keys, the keys of the
 * clipboard, names and ends of tabs.
 */
import { assertEquals } from "@std/assert";
import type { JobRecord } from "../../lib/session/job/schema.ts";
import type { Caller } from "../../lib/session/ipc/mod.ts";
import { shoot } from "../helper/browser.ts";
import type { DesktopHome, Served } from "../helper/desktop_home.ts";

/** Terminals that show what is typed, and live on while nobody looks; `exit` ends one. */
export class EchoTerminals {
  readonly #jobs = new Map<string, JobRecord>();
  /** output of each, by its job; the VM's own: "" */
  readonly #output = new Map<string, string>();
  /** what was typed into all of them */
  typed = "";

  readonly served: Served = {
    Terminal: ({ job = "" }, caller) => this.#show(job, caller),
    Jobs: (_, caller) => caller.reply({ t: "Jobs", jobs: [...this.#jobs.values()] }),
    JobStart: ({ argv, tty }, caller) => {
      const id = crypto.randomUUID().slice(0, 8);
      const job = { id, argv, tty, state: "Running" as const, started_at: new Date().toISOString() };
      this.#jobs.set(id, job);
      return caller.reply({ t: "Job", job });
    },
    JobStop: ({ job: id }, caller) => {
      const job = { ...this.#jobs.get(id)!, state: "Ended" as const };
      this.#jobs.set(id, job);
      return caller.reply({ t: "Job", job });
    },
  };

  async #show(id: string, caller: Caller): Promise<void> {
    const write = (text: string) =>
      caller.reply({ t: "Output", stream: "stdout", data: new TextEncoder().encode(text).toBase64() });
    await write("");
    await write(this.#output.get(id) ?? `shell ${id}\r\n`);
    for (let input = await caller.input(); input !== null; input = await caller.input()) {
      if (input.t !== "Data") continue;
      const text = new TextDecoder().decode(Uint8Array.fromBase64(input.data));
      this.typed += text;
      const shown = text.replaceAll("\r", "\r\n");
      this.#output.set(id, (this.#output.get(id) ?? `shell ${id}\r\n`) + shown);
      await write(shown);
      if (this.#output.get(id)!.endsWith("exit\r\n")) return;
    }
  }
}

export async function terminalSteps(
  t: Deno.TestContext,
  home: DesktopHome,
  terminals: EchoTerminals,
): Promise<void> {
  const { desktop } = home;
  const { page } = desktop;
  const rows = page.locator(".xterm-rows");
  const tabs = page.getByRole("group", { name: "Terminals" });
  const typed = async (text: string) => {
    await rows.getByText(text).first().waitFor();
    const found = terminals.typed;
    terminals.typed = "";
    return found;
  };

  await t.step("emoji, dictation, accents and input methods type once", async () => {
    await desktop.open("vm", "dev", "terminal");
    await rows.getByText("shell").first().waitFor();
    await page.keyboard.type("key ");
    // As an emoji picker, dictation and the menu of accents do: text without a key.
    await page.keyboard.insertText("🦊é spoken");
    await page.keyboard.type(" é!");
    assertEquals(await typed("spoken é!"), "key 🦊é spoken é!");
    const session = await page.context().newCDPSession(page);
    for (const text of ["に", "にほ", "日本"]) {
      await session.send("Input.imeSetComposition", {
        text,
        selectionStart: text.length,
        selectionEnd: text.length,
      });
    }
    await session.send("Input.insertText", { text: "日本" });
    await page.keyboard.type(" after");
    assertEquals(await typed("after"), "日本 after");
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "terminal");
  });

  await t.step(
    "control, shift and C copies the selection, control, shift and V pastes, and neither is typed",
    async () => {
      await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
      await page.keyboard.type("\rcopied-word");
      await rows.getByText("copied-word").waitFor();
      terminals.typed = "";
      await rows.getByText("copied-word").dblclick({ force: true });
      await page.keyboard.press("Control+Shift+KeyC");
      await page.waitForFunction("navigator.clipboard.readText().then((text) => text === 'copied-word')");
      await page.keyboard.type(" ");
      await page.keyboard.press("Control+Shift+KeyV");
      assertEquals(await typed("copied-word copied-word"), " copied-word");
    },
  );

  await t.step(
    "after the service was away the terminal goes on by itself, with its output once",
    async () => {
      await page.keyboard.type("\rbefore");
      await rows.getByText("before").waitFor();
      await home.stopService();
      await page.getByText("The connection is lost; its programs run on. Reconnecting…").waitFor();
      await home.startService();
      await page.getByText("The connection is lost").waitFor({ state: "detached" });
      await page.keyboard.type(" again");
      await rows.getByText("before again").waitFor();
      assertEquals((await rows.innerText()).match(/before/g)?.length, 1);
    },
  );

  await t.step("terminals have names, which stay, and are closed after a question", async () => {
    await page.getByRole("button", { name: "New terminal" }).click();
    await tabs.getByRole("button", { name: "Terminal 2", pressed: true }).waitFor();
    await tabs.getByRole("button", { name: "Rename" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("<b>tests</b>");
    await dialog.getByRole("button", { name: "Rename" }).click();
    await page.reload();
    await tabs.getByRole("button", { name: "<b>tests</b>" }).click();
    await rows.getByText(/^shell \w+/).first().waitFor();
    assertEquals(await desktop.violations(), []);
    await tabs.getByRole("button", { name: "Close" }).click();
    await dialog.getByText("The programs in it end.").waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
    await tabs.getByRole("button", { name: "<b>tests</b>" }).waitFor({ state: "detached" });
    await tabs.getByRole("button", { name: "Main", pressed: true }).waitFor();
  });

  await t.step(
    "a terminal whose program ended says so, and opens again when its person wants it",
    async () => {
      await rows.getByText("before again").waitFor();
      await page.keyboard.type("\rexit\r");
      await page.getByText("The terminal ended.").waitFor();
      await page.getByRole("button", { name: "Open it again" }).waitFor();
    },
  );
}
