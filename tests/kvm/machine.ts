/**
 * A machine whose kernel has KVM, on a host without: QEMU emulates a processor of AMD with its
 * virtualization. It has a copy of the checkout at its own path, and shares a folder with the host;
 * init.sh says what it does with both.
 */
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { assetsDir, eventually } from "../helper/sbx.ts";

/** Emulated processor: without what QEMU 10 cannot give a machine inside of it. */
const PROCESSOR = "EPYC-v2,+svm,+npt,-xsave,-xsaveopt,-xsavec,-xsaves,-xgetbv1,-avx,-avx2,-fma,-f16c";
/** Two processors, emulated at once, with the host's clock. */
const ACCELERATOR = "tcg,thread=multi,tb-size=1024", PROCESSORS = 2;
const MEMORY_MB = 6144;

/** Limits in `ms`: making the root file system, the machine's start, and its end. */
const ROOT_MS = 1_200_000, END_MS = 30_000;
const START_SECONDS = 300;

/**
 * QEMU of the machine's own Debian, in a mount namespace; $1 is its root, and each line of
 * folders is a source and a target.
 */
const IN_ROOT = `
root=$1 folders=$2
shift 2
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
while read -r from to; do mkdir -p "$root$to"; mount --bind "$from" "$root$to"; done <<<"$folders"
exec chroot "$root" qemu-system-x86_64 "$@"
`;

/** A folder of the host in the machine, under its own path: a copy, on a disk of its own. */
interface Shared {
  /** of the disk, by the machine's kernel */
  disk: string;
  folder: string;
}

/** Parts of a checkout that the machine does without, as a regular expression. */
const LEFT_OUT = String
  .raw`^(\.git|\.cache/(desktop|image|image\.key|image-.*|kvm.*|roots|templates|tests\..*)|dist|docs)$`;

/** A machine has ended by itself: now and then the emulator ends one without a word. */
export class MachineEnded extends Error {}

export class KvmMachine implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  #ended: Deno.CommandStatus | undefined;

  /**
   * @param folder shared with the machine; `out` has the output of its programs, and `console` its console
   */
  private constructor(child: Deno.ChildProcess, readonly folder: string) {
    this.#child = child;
    child.status.then((status) => this.#ended = status);
  }

  /** Starts a machine, whose disk is gone with it. @param folder empty; its logs */
  static async start(folder: string): Promise<KvmMachine> {
    const place = await madeRoot();
    const shares = await sharedFolders();
    for (const { disk, folder: from } of shares) await pack(from, join(folder, disk));
    for (const name of ["in", "out"]) await Deno.mkdir(join(folder, name));
    await Deno.copyFile(fromRoot("tests/kvm/init.sh"), join(folder, "init.sh"));
    const lines = shares.map(({ disk, folder }) => `${disk} ${folder}\n`);
    await Deno.writeTextFile(join(folder, "folders"), lines.join(""));
    const folders = `${place} /machine\n${folder} /share`;
    const args = [
      ...["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"],
      ...["bash", "-euc", IN_ROOT, "kvm", join(place, "root"), folders],
      ...await machineArguments(place, shares),
    ];
    const log = await Deno.open(join(folder, "qemu.log"), { create: true, write: true });
    const child = new Deno.Command("setpriv", { args, stdin: "null", stdout: "null", stderr: "piped" })
      .spawn();
    child.stderr.pipeTo(log.writable).catch(() => {});
    const machine = new KvmMachine(child, folder);
    try {
      await machine.#until("the machine is up", join(folder, "out/up"), START_SECONDS);
      // QEMU has them open: whatever ends this process, they are gone with the machine.
      for (const { disk } of shares) await Deno.remove(join(folder, disk));
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /**
   * Runs a shell script in it as root.
   *
   * @returns its exit code, and its output
   * @throws {Error} the machine has ended, or the script takes longer than `seconds`
   */
  async run(name: string, script: string, seconds: number): Promise<{ code: number; output: string }> {
    const path = (part: string) => join(this.folder, part);
    await Deno.writeTextFile(path(`in/${name}.new`), script);
    await Deno.rename(path(`in/${name}.new`), path(`in/${name}.sh`));
    await this.#until(`"${name}" ends`, path(`out/${name}.rc`), seconds);
    const [code, output] = await Promise.all(
      ["rc", "log"].map((end) => Deno.readTextFile(path(`out/${name}.${end}`))),
    );
    return { code: Number(code), output };
  }

  /** Ends it: in the ordinary way, or by a signal. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ended) return;
    await Deno.writeTextFile(join(this.folder, "in/poweroff"), "");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), END_MS);
    await this.#child.status;
    clearTimeout(timer);
  }

  async #until(what: string, path: string, seconds: number): Promise<void> {
    let ended: Deno.CommandStatus | undefined;
    await eventually(what, async () => {
      ended = this.#ended;
      return ended !== undefined || await Deno.stat(path).then(() => true, () => false);
    }, seconds).catch(async (error) => {
      throw new Error(`${error.message}\n${await this.#lastWords()}`);
    });
    if (!ended) return;
    const how = ended.signal ? `signal ${ended.signal}` : `exit code ${ended.code}`;
    throw new MachineEnded(`the machine has ended (${how}) before ${what}\n${await this.#lastWords()}`);
  }

  /** End of its console and of QEMU's own messages. */
  async #lastWords(): Promise<string> {
    const texts = await Promise.all(
      ["console", "qemu.log"].map((name) => Deno.readTextFile(join(this.folder, name)).catch(() => "")),
    );
    return texts.map((text) => text.slice(-2000)).join("\n");
  }
}

/** @returns folder of the machine's root file system and of its disk */
async function madeRoot(): Promise<string> {
  const { success, stdout, stderr } = await runChild(fromRoot("tests/kvm/root.sh"), {}, ROOT_MS);
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

/** The checkout, the installed image, and the checkout's toolchain where that is a link to another one's. */
async function sharedFolders(): Promise<Shared[]> {
  const clone = await Deno.realPath(fromRoot(""));
  const tools = await Deno.realPath(join(clone, ".deno"));
  const folders = [clone, await Deno.realPath(assetsDir())];
  if (!tools.startsWith(`${clone}/`)) folders.push(tools);
  return folders.map((folder, at) => ({ disk: `vd${"bcd"[at]}`, folder }));
}

/**
 * Writes a folder to a file system in a file: each of its small files over 9p
 * would take a millisecond or two.
 */
async function pack(folder: string, path: string): Promise<void> {
  const args = ["--quiet", "-x-1", "-T0", `--exclude-regex=${LEFT_OUT}`, path, folder];
  const { success, stderr } = await runChild("mkfs.erofs", { args });
  if (!success) throw new Error(`mkfs.erofs: ${new TextDecoder().decode(stderr)}`);
}

async function machineArguments(place: string, shares: Shared[]): Promise<string[]> {
  const [kernel, initrd] = await Promise.all(
    ["vmlinuz-", "initrd.img-"].map((name) => bootFile(place, name)),
  );
  const parameters = [
    ...["console=ttyS0", "quiet", "panic=-1", "root=/dev/vda", "rw", "init=/init-kvm"],
    // Emulation caches translated code by address; the counter is the host's.
    ...["norandmaps", "mitigations=off", "tsc=reliable"],
    `tsc_early_khz=${await hostKhz()}`,
  ];
  return [
    ...["-M", "q35,i8042=off,vmport=off", "-accel", ACCELERATOR, "-cpu", PROCESSOR, "-smp", `${PROCESSORS}`],
    ...["-m", `${MEMORY_MB}`, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"],
    ...["-serial", "file:/share/console", "-device", "virtio-rng-pci"],
    // Written to a temporary file without a name; nothing of a run is kept.
    ...drive("vda", "/machine/disk.img", "cache=unsafe,snapshot=on"),
    ...shares.flatMap(({ disk }) => drive(disk, `/share/${disk}`, "readonly=on")),
    ...["-virtfs", "local,path=/share,mount_tag=share,security_model=none"],
    ...["-kernel", kernel, "-initrd", initrd, "-append", parameters.join(" ")],
  ];
}

/** A disk; the machine's kernel names them in this order. */
function drive(name: string, file: string, options: string): string[] {
  return [
    "-drive",
    `file=${file},if=none,id=${name},format=raw,${options}`,
    "-device",
    `virtio-blk-pci,drive=${name}`,
  ];
}

/** Path of a file of the machine's kernel, in its own root. */
async function bootFile(place: string, prefix: string): Promise<string> {
  for await (const { name } of Deno.readDir(join(place, "root/boot"))) {
    if (name.startsWith(prefix)) return `/boot/${name}`;
  }
  throw new Error(`the machine's root file system has no /boot/${prefix}*`);
}

async function hostKhz(): Promise<number> {
  const mhz = (await Deno.readTextFile("/proc/cpuinfo")).match(/^cpu MHz\s*:\s*([\d.]+)/m)?.[1];
  if (mhz === undefined) throw new Error("/proc/cpuinfo has no frequency of this host's processor");
  return Math.round(Number(mhz) * 1000);
}
