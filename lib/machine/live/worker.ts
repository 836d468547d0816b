/**
 * Thread that answers the calls of a file server. It must not be filtered itself,
 * and waits for calls without end.
 */
import { CallListener } from "../../../ffi/libc/notify.ts";
import { sealedFile } from "../../../ffi/libc/sealed.ts";
import { answerCalls } from "./calls.ts";
import { Guard, MadeFiles } from "./guard.ts";
import type { LiveShare } from "./schema.ts";

/** Messages to the thread: first the shared state, then the number of the listener. */
export type LiveMessage = LiveShare | number;

const port = self as unknown as {
  postMessage(message: "ready"): void;
  onmessage: (message: { data: LiveMessage }) => void;
};

let prepared: ((listener: number) => void) | undefined;

port.onmessage = ({ data }) => {
  if (typeof data === "number") return prepared!(data);
  const made = new MadeFiles(data.made);
  const guard = new Guard({ ...data, made, hasGitfile: data.gitfile !== undefined });
  const gitfile = data.gitfile === undefined ? -1 : sealedFile("gitfile", data.gitfile);
  prepared = (listener) => answerCalls(new CallListener(listener), { guard, made, gitfile });
  port.postMessage("ready");
};
