/**
 * Thread that confines itself to some files and calls, and starts programs, which inherit its limits. The
 * kernel kills the ones with it that asked for that (PR_SET_PDEATHSIG).
 */
import { restrictCalls } from "../../../ffi/libc/confine.ts";
import { restrictFiles } from "../../../ffi/libc/landlock.ts";
import { opensFile, opensSocket } from "../../../ffi/libc/probe.ts";
import { inheritNothing, spawnWithFiles } from "../../../ffi/libc/spawn.ts";
import type { LauncherAnswer, LauncherMessage } from "./launcher.ts";

const port = self as unknown as {
  postMessage(message: LauncherAnswer): void;
  onmessage: (message: { data: LauncherMessage }) => void;
};

port.onmessage = ({ data }) => {
  try {
    if ("rights" in data) {
      if (!restrictCalls()) throw new Error("the kernel has no seccomp filters");
      const landlock = restrictFiles(data.rights);
      // Files that this process got from a shell would be open in QEMU. A kernel with Landlock has the call.
      if (landlock > 0) inheritNothing();
      const reached = [
        ...landlock > 0 ? data.mustNotOpen.filter(opensFile) : [],
        ...opensSocket() ? ["an Internet socket"] : [],
      ];
      if (reached.length > 0) throw new Error(`the kernel still lets it open ${reached.join(" and ")}`);
      port.postMessage({ landlock });
    } else {
      port.postMessage({ id: data.id, pid: spawnWithFiles(data.program, data.files) });
    }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const error = "id" in data ? `${data.program.argv[0]} could not be started: ${reason}` : reason;
    port.postMessage({ id: "id" in data ? data.id : undefined, error });
  }
};
