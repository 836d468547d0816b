/**
 * Output of a program in a terminal of the desktop page against the same in `sbx shell`:
 * bytes a second, and their ratio.
 */
import { DesktopBrowser } from "../helper/browser.ts";
import { Sbx } from "../helper/sbx.ts";

const BYTES = 8_000_000;
const ROUNDS = 3;
const NAME = "terminal-bench";
/** Lines of 79 characters; the end is an arithmetic result, which is not in the command itself. */
const PROGRAM = (mark: string) =>
  `head -c ${BYTES} /dev/zero | tr '\\0' x | fold -w 79; echo; echo ${mark}$((40+2))`;

const sbx = await Sbx.make({ spare: false });
const desktop = await DesktopBrowser.launch();
try {
  await sbx.ok("create", NAME);
  await desktop.signIn(sbx);
  await desktop.open("vm", NAME, "terminal");
  const rows = desktop.page.locator(".xterm-rows");
  await rows.getByText(`root@${NAME}`).first().waitFor();
  const shell: number[] = [], page: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    shell.push(await seconds(() => sbx.ok("shell", NAME, "--", "sh", "-c", PROGRAM("cli"))));
    await desktop.page.keyboard.type(`clear; ${PROGRAM(`page${round}`)}`);
    page.push(
      await seconds(async () => {
        await desktop.page.keyboard.press("Enter");
        await rows.getByText(`page${round}42`).waitFor({ timeout: 120_000 });
      }),
    );
  }
  const [of_shell, of_page] = [shell, page].map((each) => each.toSorted((a, b) => a - b)[ROUNDS >> 1]);
  console.log(JSON.stringify({
    name: "terminal",
    load: Deno.loadavg()[0],
    shell_mb_s: rate(of_shell),
    page_mb_s: rate(of_page),
    ratio: Math.round(of_shell / of_page * 100) / 100,
  }));
} finally {
  await desktop.browser.close();
  await sbx.dispose();
}
Deno.exit(0);

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
}

function rate(seconds: number): number {
  return Math.round(BYTES / seconds / 10_000) / 100;
}
