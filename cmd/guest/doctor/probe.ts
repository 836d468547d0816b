/** Destination of the checks: a reserved name (RFC 6761) and address (RFC 5737), refused by the host. */
export const PROBE_NAME = "sbx-doctor.invalid";
export const PROBE_ADDRESS = "192.0.2.1";
export const PROBE_PORT = 443;
