import { MessageFault } from "../../fault.ts";

/** Violation of HTTP/2 by the upstream: a connection error (RFC 9113 §5.4.1), unless it is handled for one stream. */
export class Http2Fault extends MessageFault {
  override name = "Http2Fault";

  /** @param code error code of RFC 9113 §7, for the upstream */
  constructor(reason: string, readonly code: number) {
    super(reason);
  }
}
