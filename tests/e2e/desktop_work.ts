/** Work of a VM on a repository, taken in part from the desktop. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { DecidedEvent as RecordedEvent } from "../../lib/event/mod.ts";
import { eventually } from "../helper/sbx.ts";
import { type DesktopWorld, MARKUP } from "./desktop_world.ts";

/** A name of a file may hold everything but a slash. */
const FILE = MARKUP.replaceAll("/", "∕");
const LINES = Array.from({ length: 40 }, (_, at) => `line ${at + 1}\n`);

export async function workSteps(t: Deno.TestContext, { sbx, desktop, folder }: DesktopWorld): Promise<void> {
  const { page } = desktop;
  const repo = join(folder, "repo");

  await t.step("of a VM's work some pieces are taken, and markup in it is text", async () => {
    await Deno.mkdir(repo);
    await Deno.writeTextFile(join(repo, "a.txt"), LINES.join(""));
    await git(repo, "init", "-q", "-b", "main");
    await git(repo, "add", ".");
    await git(repo, "commit", "-q", "-m", "first");
    await sbx.ok("push", repo, "desk");
    const place = "/root/repo";
    await sbx.ok(
      "exec",
      "desk",
      "--",
      "sed",
      "-i",
      `2s/.*/${MARKUP.replaceAll("/", "\\/")}/; 38s/.*/last/`,
      `${place}/a.txt`,
    );
    await sbx.ok("exec", "desk", "--", "sh", "-c", `echo '${MARKUP}' >'${place}/${FILE}'`);
    await desktop.open("sessions");
    await desktop.open("vm", "desk", "changes");
    const work = page.getByRole("region", { name: "Work" });
    await work.getByRole("button", { name: "Diff of a.txt" }).click();
    await work.getByText(`+${MARKUP}`).waitFor();
    await work.getByLabel("Piece 1 of 2 of a.txt").first().check();
    await work.getByLabel(/^Take all of <img/).check();
    assertEquals(await desktop.violations(), []);
    await work.getByRole("button", { name: "Take 2 pieces" }).click();
    await work.getByText(/^It is one commit on the branch sbx\/desk/).waitFor();
    const taken = (await git(repo, "show", "sbx/desk:a.txt")).split("\n");
    assertEquals([taken[1], taken[37]], [MARKUP, "line 38"]);
    assertEquals(await git(repo, "show", `sbx/desk:${FILE}`), `${MARKUP}\n`);
    assertEquals(await git(repo, "log", "--format=%s", "main"), "first\n");
  });

  await t.step("work that changed since it was shown is not taken", async () => {
    const { body: { units: [{ tree }] } } = await sbx.api("GET", "/vms/desk/work");
    await sbx.ok("exec", "desk", "--", "sh", "-c", "echo more >>/root/repo/a.txt");
    const take = (request: object) =>
      sbx.api("POST", "/vms/desk/work/take", { units: [{ path: "", files: [{ file: 0 }], ...request }] });
    const { status, body } = await take({ tree });
    assertEquals([status, body.code], [409, "repo.changed"]);
    const now = (await sbx.api("GET", "/vms/desk/work")).body.units[0].tree;
    for (const files of [[{ file: 99 }], [{ file: 1, hunks: [99] }], [{ file: 0 }, { file: 0 }]]) {
      const refused = await take({ tree: now, files });
      assertEquals([refused.status, refused.body.code], [400, "repo.no_change"]);
    }
  });
}

/** Looks at a VM's work, which is no event, and takes all of it. */
export async function takeAllSteps(
  t: Deno.TestContext,
  { sbx, desktop, folder }: DesktopWorld,
): Promise<void> {
  const { page } = desktop;

  await t.step("a look at the work is no event of the VM", async () => {
    await sbx.ok("exec", "desk", "--", "sh", "-c", "echo unread >/root/repo/unread");
    const newest = async (limit: number): Promise<RecordedEvent[]> =>
      (await sbx.api("GET", `/sessions/desk/events?order=newest&limit=${limit}`)).body.events;
    const [{ common: { sequence: before } }] = await newest(1);
    await desktop.open("sessions");
    await desktop.open("vm", "desk", "changes");
    const work = page.getByRole("region", { name: "Work" });
    await work.getByRole("button", { name: "Diff of unread" }).waitFor();
    // The guest reports in order: once this program is there, all before it is. It runs again while it is
    // not, since a program that ran while the report began again is in a gap of the record.
    let events: RecordedEvent[] = [];
    const isReported = async () => {
      await sbx.ok("exec", "desk", "--", "id", "-un");
      events = (await newest(200)).filter(({ common }) => common.sequence > before);
      return events.some(({ common, process }) =>
        common.actor === "vm" && process?.activity.executable.endsWith("/id") === true
      );
    };
    await eventually("the guest reports it", isReported).catch((error) => {
      const seen = events.map(({ common, process }) =>
        [
          common.event_type,
          common.actor,
          process?.activity.command ?? "",
          JSON.stringify(common.labels),
        ].join(" ")
      );
      throw new Error([error.message, ...seen.toReversed()].join("\n"));
    });
    // A program whose arguments the guest could not read, since it had ended, may be one of the VM's own.
    const unread = events.filter(({ common }) => common.labels.truncated === "true")
      .map(({ common }) => common.event_id);
    const ofLook = /sbx-repository|sbx-out|repo\/\.git/;
    const seen = events.filter(({ common: { event_id, labels } }) =>
      ![event_id, labels.event_id].some((id) => unread.includes(id))
    ).filter((event) => ofLook.test(JSON.stringify(event)));
    assertEquals(seen, []);
  });

  await t.step(
    "all is taken at one click, and files that run automatically only after a question",
    async () => {
      await sbx.ok("exec", "desk", "--", "sh", "-c", "echo 'all:' >/root/repo/Makefile");
      await desktop.open("sessions");
      await desktop.open("vm", "desk", "changes");
      const work = page.getByRole("region", { name: "Work" });
      await work.getByText(/^Runs automatically: /).first().waitFor();
      await work.getByRole("button", { name: "Take all", exact: true }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("Makefile").waitFor();
      assertEquals(await desktop.violations(), []);
      const [taken] = await Promise.all([
        page.waitForResponse(/\/work\/take$/),
        dialog.getByRole("button", { name: "Take them" }).click(),
      ]);
      const [{ branch }] = (await taken.json()).branches;
      await work.getByText(`It is one more commit on the branch ${branch}`).waitFor();
      assertEquals(await git(join(folder, "repo"), "show", `${branch}:Makefile`), "all:\n");
      // Work that is left in the VM, which its deletion asks about.
      await sbx.ok("exec", "desk", "--", "sh", "-c", "echo left >/root/repo/left");
    },
  );
}

async function git(repo: string, ...args: string[]): Promise<string> {
  const identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
  const command = new Deno.Command("git", { args: ["-C", repo, ...identity, ...args] });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}
