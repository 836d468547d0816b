/** The destination of the checks: a name of nobody (RFC 6761) at an address of nobody (RFC 5737), which the host refuses itself. */
export const PROBE_NAME = "sbx-doctor.invalid";
export const PROBE_ADDRESS = "192.0.2.1";
export const PROBE_PORT = 443;
