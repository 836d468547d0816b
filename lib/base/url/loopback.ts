/** True for host names of this machine in URLs. */
export function isLoopbackHost(hostname: string): boolean {
  return /^(127\.[0-9.]+|localhost|\[::1\])$/.test(hostname);
}
