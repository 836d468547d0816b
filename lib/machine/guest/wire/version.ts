/**
 * Version of everything that host and guest programs say to each other. An image has the programs of the
 * sbx that built it: the host refuses one of another version before it boots a VM halfway. A test asks
 * for another one with each change.
 */
export const GUEST_VERSION = "13";
