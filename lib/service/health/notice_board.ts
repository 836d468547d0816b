/** Notifications of this machine's desktop. */
import type { Board } from "../contract/ask_notice.ts";

/** The desktop's board; loaded when there is something to show. */
export async function openBoard(): Promise<Board> {
  if (Deno.build.os === "darwin") return MAC_BOARD;
  const module = "../../base/dbus/mod.ts";
  const { DbusBoard } = await import(module);
  return new DbusBoard();
}

/** The script takes its texts as arguments: text of a guest is no part of it. Notifications of scripts have no buttons. */
const SCRIPT = ["on run {body, title}", "display notification body with title title", "end run"];

/** Arguments of osascript for a notification. */
export function macArguments({ title, body }: { title: string; body: string }): string[] {
  return [...SCRIPT.flatMap((line) => ["-e", line]), body, title];
}

const MAC_BOARD: Board = {
  async show({ title, body }) {
    // Escaped for desktops that read markup; this one shows plain text.
    const text = body.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
    const args = macArguments({ title, body: text });
    await new Deno.Command("osascript", { args, stdin: "null", stdout: "null", stderr: "null" }).output();
    return undefined;
  },
};
