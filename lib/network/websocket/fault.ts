import { MessageFault } from "../fault.ts";

/** Frames that cannot be read safely. Both sides receive its code, and the connection ends. */
export class SocketFault extends MessageFault {
  override name = "SocketFault";

  /**
   * @param code of the close frame: 1002 protocol error, 1007 data that does not fit its type, 1009 too big
   */
  constructor(reason: string, readonly code: 1002 | 1007 | 1009 = 1002) {
    super(reason);
  }
}
