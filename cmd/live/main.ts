/** sbx-live: guards the file server of a VM that has a folder of the host (docs/live.md). */
import { log } from "../../lib/base/log/mod.ts";
import { LiveShare, serveLive } from "../../lib/live/mod.ts";

/** @param args the share as JSON, and the file server with its arguments. @returns the exit code */
export async function main([share, ...server]: string[]): Promise<number> {
  try {
    return await serveLive(LiveShare.parse(JSON.parse(share)), server);
  } catch (error) {
    log.error(error);
    return 1;
  }
}
