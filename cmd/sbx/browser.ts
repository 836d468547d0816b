/** Opening addresses in a browser of this machine. */

const OPENER = Deno.build.os === "darwin" ? "open" : "xdg-open";
/** Browsers that open a window without tabs and address. */
const WITH_APP_WINDOWS = ["chromium", "google-chrome", "microsoft-edge", "brave-browser"];
/** `ms` after which a browser that still runs has opened its window. */
const OPENED_MS = 1500;

/** True if this machine has a screen. */
function hasScreen(): boolean {
  return Deno.build.os !== "linux" || Deno.env.has("DISPLAY") || Deno.env.has("WAYLAND_DISPLAY");
}

/** Opens an address in the default browser. @returns whether a browser took it */
export async function openInBrowser(url: string): Promise<boolean> {
  return hasScreen() && await opens(OPENER, [url]);
}

/** Opens an address in a separate window, else in the default browser. @returns whether a browser took it */
export async function openWindow(url: string): Promise<boolean> {
  if (!hasScreen()) return false;
  for (const browser of WITH_APP_WINDOWS) if (await opens(browser, [`--app=${url}`])) return true;
  return await openInBrowser(url);
}

/** Starts a browser, which may hand over to a running one and end, or stay. */
async function opens(program: string, args: string[]): Promise<boolean> {
  try {
    const child = new Deno.Command(program, { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
    child.unref();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const runsOn = new Promise<boolean>((resolve) => timer = setTimeout(() => resolve(true), OPENED_MS));
    return await Promise.race([runsOn, child.status.then(({ success }) => success)]).finally(() =>
      clearTimeout(timer)
    );
  } catch {
    return false;
  }
}
