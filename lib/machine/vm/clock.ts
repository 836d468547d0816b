/** Frequency of the kernel's timer interrupt in Debian, in `Hz`. */
const KERNEL_HZ = 250;

/**
 * Kernel parameters for the clock of an emulated x86_64 guest. Under emulation the guest calibrates its clock against an emulated timer,
 * which is slow and inexact on a busy host. The guest's counter is the host's, so a constant and known host
 * frequency is passed instead; `lpj` is the same for a processor that starts later.
 */
export function bootClock(): string[] {
  try {
    const cpu = Deno.readTextFileSync("/proc/cpuinfo").split("\n\n")[0];
    const mhz = cpu.match(/^cpu MHz\s*:\s*([\d.]+)/m)?.[1];
    const isConstant = /\b(tsc_known_freq|hypervisor)\b/.test(cpu) && /\bconstant_tsc\b/.test(cpu);
    if (!mhz || !isConstant) return [];
    const khz = Math.round(Number(mhz) * 1000);
    return [`tsc_early_khz=${khz}`, "tsc=reliable", `lpj=${Math.round(khz * 1000 / KERNEL_HZ)}`];
  } catch {
    return [];
  }
}
