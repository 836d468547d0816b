/** A VM's work on the desktop page: read to its end, and taken in parts onto one branch. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { VmGuest } from "../../cmd/sbx/files/repository.ts";
import { silent } from "../../lib/base/progress/mod.ts";
import { bringIn } from "../../lib/repo/mod.ts";
import { shoot } from "../helper/browser.ts";
import type { DesktopHome } from "../helper/desktop_home.ts";
import { git, sh } from "../helper/repository.ts";

/** More lines than the page draws at first, and more characters than it was once sent. */
const LINES = 5000;

export async function workSteps(t: Deno.TestContext, home: DesktopHome): Promise<void> {
  const { desktop } = home;
  const { page } = desktop;
  const [repo, inside] = ["repo", "guest"].map((name) => join(home.dir, name));
  await Deno.mkdir(repo);
  await sh(repo, "git init -q -b main; seq 1 100 >n.txt; git add -A; git commit -qm first");
  await home.withClient((client) =>
    bringIn(new VmGuest(client, "dev"), {
      dir: repo,
      room: home.paths.repository,
      place: inside,
      progress: silent,
      withSecrets: false,
    })
  );
  await sh(
    inside,
    `sed -i 's/^5$/five/; s/^95$/ninety/' n.txt; seq 1 ${LINES} >new.txt
    mkdir -p .github/workflows; echo 'on: push' >.github/workflows/ci.yml; echo '{}' >package.json`,
  );
  const work = page.getByRole("region", { name: "Work" });

  await t.step(
    "a long new file is read to its end, and files that run by themselves stand apart",
    async () => {
      await desktop.open("vm", "dev", "changes");
      const flagged = work.getByRole("list", { name: "Run automatically" });
      await flagged.getByText(".github/workflows/ci.yml").waitFor();
      assertEquals(await flagged.getByRole("listitem").count(), 2);
      await flagged.getByText("Runs automatically: CI").waitFor();
      const others = work.getByRole("list", { name: "Changed files" });
      assertEquals(await others.getByRole("listitem").count(), 2);
      await work.getByRole("button", { name: "Diff of n.txt" }).click();
      await work.getByText("ninety").waitFor();
      assertEquals(await desktop.violations(), []);
      await shoot(desktop, "work");
      await work.getByRole("button", { name: "Diff of new.txt" }).click();
      await work.getByRole("button", { name: "Show all 5,001 lines" }).click();
      const last = work.getByRole("group", { name: "Diff of new.txt" }).locator("tr").last();
      assertEquals(await last.locator("td").last().innerText(), `+${LINES}`);
      assertEquals(await last.locator("td").nth(1).getAttribute("data-number"), String(LINES));
      await work.getByRole("checkbox", { name: "Viewed new.txt" }).check();
      await last.waitFor({ state: "detached" });
    },
  );

  await t.step("what the VM changes meanwhile is shown, unless a selection would be lost", async () => {
    const write = async (name: string) => {
      await Deno.writeTextFile(join(inside, name), `${name}\n`);
      home.gate.observe({
        common: { event_type: "file.activity", source_engine: "file" },
        file: {
          activity: {
            ...{ operation: "write", path: `/workspace/${name}`, path_class: "workspace" },
            ...{ name, ext: "txt", byte_count: 1 },
          },
        },
      });
    };
    const diff = (name: string) => work.getByRole("button", { name: `Diff of ${name}` });
    await write("meanwhile.txt");
    await diff("meanwhile.txt").waitFor();
    const box = work.getByRole("checkbox", { name: "Take all of meanwhile.txt" });
    await box.check();
    await write("later.txt");
    await work.getByText("Files changed since").waitFor();
    assertEquals([await box.isChecked(), await diff("later.txt").count()], [true, 0]);
    await work.getByRole("button", { name: "Refresh" }).click();
    await diff("later.txt").waitFor();
    for (const name of ["meanwhile.txt", "later.txt"]) await Deno.remove(join(inside, name));
    await work.getByRole("button", { name: "Refresh" }).click();
    await diff("later.txt").waitFor({ state: "detached" });
    await diff("n.txt").click();
  });

  await t.step("a second take goes onto the first one's branch, in its author's words", async () => {
    await work.getByLabel("Piece 1 of 2 of n.txt").first().check();
    await work.getByRole("button", { name: "Take 1 piece" }).click();
    await work.getByText("It is one commit on the branch sbx/dev").waitFor();
    await work.getByRole("button", { name: "Diff of n.txt" }).click();
    await work.getByLabel("Piece 2 of 2 of n.txt").first().check();
    await work.getByLabel("Take all of new.txt").check();
    await work.getByLabel("Commit message").fill("the rest of it");
    await work.getByRole("button", { name: "Take 2 pieces" }).click();
    await work.getByText("It is one more commit on the branch sbx/dev").waitFor();
    assertEquals(await desktop.violations(), []);
    await shoot(desktop, "work_taken");
    assertEquals(await git(repo, "log", "--format=%s", "main..sbx/dev"), "the rest of it\nWork of dev");
    assertEquals(
      await git(repo, "diff", "--stat=80", "--format=", "main", "sbx/dev", "--", "n.txt"),
      [
        " n.txt | 4 ++--",
        " 1 file changed, 2 insertions(+), 2 deletions(-)",
      ].join("\n"),
    );
    assertEquals(await work.getByLabel("Commit message").inputValue(), "");
  });

  await t.step("where it does not go there, the page says so", async () => {
    await sh(repo, "git checkout -q sbx/dev");
    await work.getByLabel("Take all of .github/workflows/ci.yml").check();
    await work.getByRole("button", { name: "Take 1 piece" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("ci.yml").waitFor();
    await dialog.getByRole("button", { name: "Take them" }).click();
    await work.getByText(/on a branch of its own, sbx\/dev-2: sbx\/dev .* is checked out/).waitFor();
    assertEquals(await git(repo, "show", "sbx/dev-2:.github/workflows/ci.yml"), "on: push");
  });
}
