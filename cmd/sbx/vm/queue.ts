/** Waiting for room for a new VM. */
import type { CreateRequest, QueueResult } from "../../../lib/client/api/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";

/** Longest wait, in `s`, as the API has it. */
const SECS_MAX = 24 * 3600;
/** `ms` between looks at the queue. */
const LOOK_MS = 2000;

export const QUEUE_OPTION: Option = {
  name: "queue",
  value: "SECONDS",
  about: "wait so long for room, where the limits of VMs or of their memory are reached",
};

/** Request field of {@linkcode QUEUE_OPTION}. */
export function queueOf(args: Arguments): Pick<CreateRequest, "queue_secs"> {
  const queue_secs = args.number("queue", { min: 0, max: SECS_MAX });
  return queue_secs === undefined ? {} : { queue_secs };
}

/** Shows how many wait, until a request that may wait is answered. */
export async function whileQueued<T>(
  client: Client,
  { queue_secs = 0 }: Pick<CreateRequest, "queue_secs">,
  answer: Promise<T>,
): Promise<T> {
  if (queue_secs === 0) return await answer;
  let shown = "";
  const look = async () => {
    const { running, waiting } = await client.json<QueueResult>("GET", "/vms/queue");
    const line = `sbx: waiting for room: ${count(running, "VM runs", "VMs run")}, ${
      count(waiting.length, "create waits", "creates wait")
    }`;
    if (waiting.length > 0 && line !== shown) note(shown = line);
  };
  const timer = setInterval(() => look().catch(ignore("the request itself has the failure")), LOOK_MS);
  try {
    return await answer;
  } finally {
    clearInterval(timer);
  }
}
