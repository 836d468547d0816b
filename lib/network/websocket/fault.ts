import { MessageFault } from "../fault.ts";

/** Frames that cannot be read safely. Both sides receive its code, and the connection ends. */
export class SocketFault extends MessageFault {
  override name = "SocketFault";

  /** @param code of the close frame: 1002 protocol error, 1007 text that is not UTF-8, 1009 too big */
  constructor(reason: string, readonly code: 1002 | 1007 | 1009 = 1002) {
    super(reason);
  }
}
