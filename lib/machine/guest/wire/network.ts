/** Addresses and ports used only inside the guest. */
export const GUEST_NETWORK = {
  interface: "dummy0",
  /**
   * in TEST-NET-1 (RFC 5737), which is unassigned; with a private address clients would prefer IPv6 or no
   * network
   */
  ipv4: "192.0.2.2",
  /** on no interface, so that early queries are lost and repeated instead of refused */
  resolver: "192.0.2.53",
  ipv6: "fd73:6278::2",
  /** ports of sbx-net-proxy on the loopback and these addresses, above the kernel's range for clients */
  tcpPort: 61003,
  dnsPort: 61007,
} as const;

/** Where a guest has the programs of sbx (lib/publish/image/layer.ts). */
export const LAYER_PATH = "/usr/lib/sbx";
/**
 * Where it has the ones for people, and their names: they run as root, and no program
 * of an image takes their place.
 */
export const COMMANDS_PATH = `${LAYER_PATH}/commands`;
export const COMMANDS: readonly string[] = [
  "sbx-ask",
  "sbx-bench",
  "sbx-conflicts",
  "sbx-doctor",
  "sbx-mcp-server",
  "sbx-sign",
  "sbx-sshd",
  "snapshots",
];

/** Path of the host's CA certificate in the guest, which signs for inspected connections. */
export const CA_PATH = "/etc/sbx/ca.pem";
/**
 * Bundles of certificates that programs read, where an image has them; often links to one another: Debian's,
 * Alpine's, Fedora's, SUSE's and Arch's.
 */
export const TRUST_BUNDLES: readonly string[] = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/ssl/cert.pem",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ca-certificates/extracted/tls-ca-bundle.pem",
];
/** Variables with which common clients are find a bundle. */
export const TRUST_VARIABLES = [
  "SSL_CERT_FILE",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
  "GIT_SSL_CAINFO",
  "CARGO_HTTP_CAINFO",
  "AWS_CA_BUNDLE",
  "NODE_EXTRA_CA_CERTS",
  "DENO_CERT",
] as const;

/**
 * OCI runtimes that put the CA into a container, in front of the ones with the same names
 * (lib/publish/image/docker.ts).
 */
export const RUNTIMES_PATH = `${LAYER_PATH}/runtimes`;
/**
 * Files of the guest in a container: its bundle, and apt's configuration that names it, for an
 * image without a bundle. A container's /dev is a file system of its own, so that the mounts
 * leave no file behind in its layer.
 */
export const CONTAINER_FILES = { bundle: "/dev/sbx-ca.crt", apt: "/dev/sbx-apt.conf" } as const;
/** Where the guest has apt's configuration for containers. */
export const CONTAINER_APT_PATH = `${LAYER_PATH}/container-apt.conf`;
/**
 * Variables of containers: the guest's, and the one of Alpine's apk, which an image without a bundle needs.
 */
export const CONTAINER_VARIABLES: readonly [name: string, value: string][] = [
  ...[...TRUST_VARIABLES, "SSL_CA_CERT_FILE"].map((name): [string, string] => [name, CONTAINER_FILES.bundle]),
  ["APT_CONFIG", CONTAINER_FILES.apt],
];

/**
 * The guest's certificates as a Java store, for steps of builds in whose image no store can be changed, and
 * the option that makes a JVM trust them.
 */
export const CONTAINER_JAVA = {
  path: "/dev/sbx-trust.jks",
  variable: "JAVA_TOOL_OPTIONS",
  option: "-Djavax.net.ssl.trustStore=",
} as const;

/** Rules for `nft -f`, which sbx-net-proxy loads. */
export const RULES_PATH = `${LAYER_PATH}/net.nft`;

/** nfnetlink_log group for refused packets, read by sbx-net-proxy. */
export const LOG_GROUP = 1;
