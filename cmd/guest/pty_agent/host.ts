/**
 * The host as the agent's programs see it, its activity keys, and files that it has written to the workspace.
 */
import { ACTIVITY_KEYS, type GuestMessage, type HostMessage } from "../../../lib/machine/guest/wire/mod.ts";
import { INSTANCE } from "../../../lib/machine/guest/trace/mod.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";

/** The host, as programs and terminals of the agent use it. */
export interface Host {
  /** variables of every program in this VM */
  environment: Record<string, string>;
  /** opens a connection to one of the host's ports */
  connect(port: number): Promise<Deno.Conn>;
  send(message: GuestMessage): Promise<void>;
  /** number of times that a host has connected */
  visits: number;
  /** while the machine is being written down; resolves when a host is there again */
  away?: PromiseWithResolvers<void>;
}

/** Held open both ways: written bytes wait for a reader, even one that is restarted. */
let pipe: Deno.FsFile | undefined;

/** Passes a key of the host on to sbx-activity, with this program's pid. */
export async function passKey(key: string): Promise<void> {
  pipe ??= await Deno.open(ACTIVITY_KEYS, { read: true, write: true });
  await pipe.write(new TextEncoder().encode(`${key} ${Deno.pid}\n`));
}

/**
 * Switches on the trace that init has prepared: the record begins with the first program,
 * though sbx-activity reads it later.
 */
export function switchTraceOn(): void {
  try {
    Deno.writeTextFileSync(`${INSTANCE}/tracing_on`, "1");
  } catch {
    // The kernel refused a part of it to init, too: sbx-activity reports why.
  }
}

type AwaitFile = Extract<HostMessage, { t: "AwaitFile" }>;

const POLL_MS = 20;
/** Longest wait, in `ms`: virtiofs caches attributes of a file for one second. */
const DEADLINE_MS = timeLimit(2500);

/**
 * Waits until a file written to the workspace by the host shows its new size here. The guest's kernel may
 * cache the old size for a second, and the next program must see the new content.
 */
export async function awaitFile(
  { id, path, size }: AwaitFile,
  send: (message: GuestMessage) => Promise<void>,
): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  let visible = false;
  while (!visible && performance.now() < deadline) {
    visible = (await Deno.stat(path).catch(() => null))?.size === size;
    if (!visible) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  await send({ t: "FileVisible", id, visible });
}

/**
 * Asks for a file of the workspace, whether or not it exists. Notices of pending requests got lost while the
 * machine was written down: the host finds those requests with the next notice.
 */
export function remindWorkspace(): void {
  Deno.lstat("/workspace/.sbx-reminder").catch(
    ignore("the request counts, whether or not the file is there"),
  );
}
